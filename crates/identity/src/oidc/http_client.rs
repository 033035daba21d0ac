//! The calls to the provider in the form that openidconnect wants them.

use std::{pin::Pin, sync::Arc};

use http::{Request, Response};
use openidconnect::AsyncHttpClient;

use crate::ops::http_client::{CallError, HttpClient};

/// ProviderCalls to one endpoint of the provider.
#[derive(Clone, Debug)]
pub struct ProviderCalls {
    client: Arc<HttpClient>,
    endpoint: &'static str,
}

impl ProviderCalls {
    /// To one endpoint; its name is for the metrics.
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
