//! The request as an app gets it.

use http::{HeaderMap, Request, Uri, Version, header, uri::PathAndQuery, uri::Scheme};

use super::{
    fault::Fault, outgoing::Outgoing, request_headers, spare_headers::SpareHeaders, upload::Upload,
};
use crate::model::app::{Protocol, UpstreamScheme};

/// The request as it is sent. On HTTP/2 the host is part of the address, and the message frames
/// itself.
///
/// # Errors
/// [`Fault::Unsendable`].
pub(super) fn assemble(
    outgoing: &Outgoing<'_, '_>,
    target: PathAndQuery,
    body: Upload,
    spare: &SpareHeaders,
) -> Result<Request<Upload>, Fault> {
    let mut headers = request_headers::build(outgoing, spare.pop());
    let mut request = Request::new(body);
    let app = outgoing.permit.app();
    (*request.version_mut(), *request.uri_mut()) = match app.spec.protocol {
        Protocol::Http1 => (Version::HTTP_11, Uri::from(target)),
        Protocol::Http2 => {
            let uri = absolute(&mut headers, target, &app.spec.upstream.scheme)?;
            (Version::HTTP_2, uri)
        }
    };
    *request.method_mut() = outgoing.request.arrival.method.clone();
    *request.headers_mut() = headers;
    Ok(request)
}

fn absolute(
    headers: &mut HeaderMap,
    target: PathAndQuery,
    scheme: &UpstreamScheme,
) -> Result<Uri, Fault> {
    let host = headers.remove(header::HOST).ok_or(Fault::Unsendable)?;
    headers.remove(header::TRANSFER_ENCODING);
    let scheme = match scheme {
        UpstreamScheme::Https | UpstreamScheme::Attested(_) => Scheme::HTTPS,
        UpstreamScheme::Http | UpstreamScheme::Unix(_) | UpstreamScheme::Pods(_) => Scheme::HTTP,
    };
    let uri = Uri::builder().scheme(scheme).authority(host.as_bytes());
    let uri = uri.path_and_query(target).build();
    uri.map_err(|_| Fault::Unsendable)
}
