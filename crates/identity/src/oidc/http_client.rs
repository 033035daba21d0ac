//! Calls to the provider, as openidconnect's HTTP client.

use std::{pin::Pin, sync::Arc};

use http::{Request, Response};
use openidconnect::AsyncHttpClient;

use super::provider_health::ProviderHealth;
use crate::ops::http_client::{CallError, CallLimits, HttpClient};

/// Calls to one endpoint of the provider.
#[derive(Clone, Debug)]
pub struct ProviderCalls {
    client: Arc<HttpClient>,
    endpoint: &'static str,
    health: Option<Arc<ProviderHealth>>,
}

impl ProviderCalls {
    /// `endpoint` is the label in the metrics.
    pub fn new(client: &Arc<HttpClient>, endpoint: &'static str) -> ProviderCalls {
        ProviderCalls {
            client: client.clone(),
            endpoint,
            health: None,
        }
    }

    /// The same calls, whose results show the health of the provider.
    pub fn recorded_in(self, health: &Arc<ProviderHealth>) -> ProviderCalls {
        ProviderCalls {
            health: Some(health.clone()),
            ..self
        }
    }

    /// One call.
    ///
    /// # Errors
    /// See [`CallError`]. A status that is not 2xx is no error here.
    pub async fn send(
        &self,
        request: Request<Vec<u8>>,
        limits: CallLimits,
    ) -> Result<Response<Vec<u8>>, CallError> {
        let client = &self.client;
        let result = client.call_within(self.endpoint, request, limits).await;
        if let Some(health) = &self.health {
            health.record(self.endpoint, &result);
        }
        result
    }
}

impl<'c> AsyncHttpClient<'c> for ProviderCalls {
    type Error = CallError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Vec<u8>>, CallError>> + Send + 'c>>;

    fn call(&'c self, request: Request<Vec<u8>>) -> Self::Future {
        Box::pin(self.send(request, CallLimits::default()))
    }
}
