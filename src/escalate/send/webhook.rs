//! One POST to a webhook, in the shape that its receiver reads. It never says its own address: that may be a secret.

use super::Outgoing;
use super::guard::Reach;
use super::http::{client, why};
use super::sign::SigningKeys;
use crate::config::{Webhook, WebhookFormat};
use crate::escalate::pace::Outcome;
use crate::escalate::shapes::{discord, json, ntfy, slack, teams};
use reqwest::{Client, RequestBuilder, Response, Url, header};
use std::time::Duration;

pub(in crate::escalate) struct WebhookSender {
    client: Client,
    url: Url,
    reach: Reach,
    format: WebhookFormat,
    auth: Auth,
}

enum Auth {
    None,
    Signed(SigningKeys),
    /// An access token of ntfy.
    Bearer(String),
}

impl WebhookSender {
    /// `secret` is the value of `secret_env`. The error is for the owner.
    pub(in crate::escalate) fn new(
        webhook: &Webhook,
        secret: Option<&str>,
        roots: &[Vec<u8>],
    ) -> Result<Self, String> {
        let url =
            Url::parse(&webhook.url).map_err(|error| format!("its address is wrong: {error}"))?;
        let reach = Reach::of(url.host_str().unwrap_or_default(), webhook.allow_private);
        let auth = auth(webhook.format, secret)?;
        let client = client(reach, roots).map_err(why)?;
        Ok(Self { client, url, reach, format: webhook.format, auth })
    }

    pub(in crate::escalate) async fn send(&self, outgoing: &Outgoing) -> Outcome {
        // Names are checked when they are resolved.
        if !self.reach.allows_host(self.url.host_str().unwrap_or_default()) {
            return Outcome::later("a private address needs `allow_private`");
        }
        match self.request(outgoing).send().await {
            Ok(response) => Outcome::of_status(response.status().as_u16(), retry_after(&response)),
            Err(error) => Outcome::later(why(error)),
        }
    }

    fn request(&self, outgoing: &Outgoing) -> RequestBuilder {
        let message = &outgoing.message;
        let mut request = self.client.post(self.url.clone());
        let (body, kind) = match self.format {
            WebhookFormat::Json => (json(message), "application/json"),
            WebhookFormat::Slack => (slack(message), "application/json"),
            WebhookFormat::Discord => (discord(message), "application/json"),
            WebhookFormat::Teams => (teams(message), "application/json"),
            WebhookFormat::Ntfy => {
                let note = ntfy(message);
                for (name, value) in note.headers {
                    request = request.header(name, value);
                }
                (note.body, "text/plain; charset=utf-8")
            }
        };
        let timestamp = outgoing.now.timestamp();
        request = request
            .header(header::CONTENT_TYPE, kind)
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", timestamp);
        request = match &self.auth {
            Auth::None => request,
            Auth::Signed(keys) => {
                request.header("webhook-signature", keys.sign(&message.id, timestamp, &body))
            }
            Auth::Bearer(token) => request.bearer_auth(token),
        };
        request.body(body)
    }
}

fn auth(format: WebhookFormat, secret: Option<&str>) -> Result<Auth, String> {
    let Some(secret) = secret else { return Ok(Auth::None) };
    match SigningKeys::parse(secret) {
        Some(keys) => Ok(Auth::Signed(keys)),
        None if format == WebhookFormat::Ntfy => Ok(Auth::Bearer(secret.trim().to_owned())),
        None => Err("its secret is not `whsec_<base64>`".to_owned()),
    }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    seconds.parse().ok().map(Duration::from_secs)
}
