//! Streams of events: the data says what happened, and the bytes are compared.

use ludgate_labs::events::LabEvent;
use serde_json::Value;

use crate::{
    data::{Data, stem},
    flows::{RACHEL, assert_created, body, events, standard},
    routes::wait_for,
};

/// The bytes of a stream with the events of a file.
pub(crate) fn stream(events: &Value) -> String {
    let frames = events.as_array().expect("a list").iter().map(|event| {
        let text = |name: &str| event[name].as_str().expect("a text").to_owned();
        format!("event: {}\r\ndata: {}\r\n\r\n", text("event"), text("data"))
    });
    frames.collect()
}

/// Makes labs in memory go through the events of a file, and compares the bytes of the stream. The
/// events after the one about the objects are the pod's own.
fn replay(data: &Data, file: &str) {
    let expected = data.json(file);
    let messages: Vec<(String, String)> = expected
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| {
            let content: Value =
                serde_json::from_str(event["data"].as_str().expect("a text")).expect("JSON");
            let text = |value: &Value| value.as_str().expect("a text").to_owned();
            (text(&event["event"]), text(&content["message"]))
        })
        .collect();
    let is_made = |message: &str| *message == LabEvent::objects_created().message;
    let of_pod = messages
        .iter()
        .skip_while(|(_, message)| !is_made(message))
        .skip(1);
    let [replaced, ..] = LabEvent::replacement_steps(RACHEL);
    let is_replacement = messages
        .iter()
        .any(|(_, message)| *message == replaced.message);
    let routes = standard(data, false);
    wait_for(async {
        if is_replacement {
            assert_created(&routes, &body(data)).await;
            routes.labs.pod_is_made(RACHEL);
            routes.labs.pod_runs(RACHEL);
            routes.labs.pod_is_in(RACHEL, "Failed");
        }
        assert_created(&routes, &body(data)).await;
        routes.labs.pod_is_made(RACHEL);
        for (kind, message) in of_pod {
            match kind.as_str() {
                "info" => routes.labs.pod_event(RACHEL, message),
                "error" => routes
                    .labs
                    .spawn_fails(RACHEL, LabEvent::error(message.clone())),
                "complete" => routes.labs.pod_runs(RACHEL),
                _ => {}
            }
        }
        assert_eq!(events(&routes).await, stream(&expected), "{file}");
    });
}

/// All streams of the data. The status of the lab is compared where a hub asks for it.
pub(crate) fn streams_are_told(data: &Data) -> usize {
    let files = data.files("spawn");
    for file in &files {
        match stem(file) {
            name if name.starts_with("events") => replay(data, &format!("spawn/{file}")),
            "lab-status" => crate::labs::a_lab_is_read_back(data),
            other => panic!("{other}: what is it?"),
        }
    }
    files.len()
}
