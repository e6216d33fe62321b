//! Turns of the event loop, which deliver messages between two forward passes of the draft model.

use std::{cell::RefCell, rc::Rc};

use futures_channel::oneshot;
use wasm_bindgen::{JsCast, JsValue, prelude::Closure};
use web_sys::{MessageChannel, MessagePort};

use crate::error::Failure;

/// Waits for one turn by a message to itself. A timer would take 4 ms, the time of one or two drafts.
pub struct Turn {
    sending: MessagePort,
    receiving: MessagePort,
    waiting: Rc<RefCell<Option<oneshot::Sender<()>>>>,
    _on_message: Closure<dyn FnMut()>,
}

impl Turn {
    pub fn new() -> Result<Self, Failure> {
        let channel = MessageChannel::new()
            .map_err(|error| Failure::new("internal", format!("there is no message channel: {error:?}")))?;
        let waiting: Rc<RefCell<Option<oneshot::Sender<()>>>> = Rc::default();
        let woken = waiting.clone();
        let on_message = Closure::<dyn FnMut()>::new(move || {
            if let Some(waiting) = woken.borrow_mut().take() {
                // The waiting task may have been dropped.
                let _ = waiting.send(());
            }
        });
        let (receiving, sending) = (channel.port1(), channel.port2());
        receiving.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        Ok(Self { sending, receiving, waiting, _on_message: on_message })
    }

    /// Lets the event loop deliver pending messages.
    pub async fn take(&self) {
        let (sender, receiver) = oneshot::channel();
        *self.waiting.borrow_mut() = Some(sender);
        if self.sending.post_message(&JsValue::NULL).is_ok() {
            let _ = receiver.await;
        }
    }
}

impl Drop for Turn {
    /// Closes the port, because an open port with a listener is never freed.
    fn drop(&mut self) {
        self.receiving.set_onmessage(None);
        self.receiving.close();
    }
}
