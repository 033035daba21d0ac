//! Calls to the provider, as openidconnect's HTTP client.

use std::{pin::Pin, sync::Arc};

use http::{Request, Response};
use openidconnect::AsyncHttpClient;

use crate::ops::http_client::{CallError, HttpClient};

/// Calls to one endpoint of the provider.
#[derive(Clone, Debug)]
pub struct ProviderCalls {
    client: Arc<HttpClient>,
    endpoint: &'static str,
}

impl ProviderCalls {
    /// `endpoint` is the label in the metrics.
    pub fn new(client: &Arc<HttpClient>, endpoint: &'static str) -> ProviderCalls {
        ProviderCalls {
            client: client.clone(),
            endpoint,
        }
    }
}

impl<'c> AsyncHttpClient<'c> for ProviderCalls {
    type Error = CallError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Vec<u8>>, CallError>> + Send + 'c>>;

    fn call(&'c self, request: Request<Vec<u8>>) -> Self::Future {
        Box::pin(self.client.call(self.endpoint, request))
    }
}
