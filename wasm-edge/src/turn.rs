//! Turns of the event loop: between two forward passes of the draft model what has arrived is delivered.

use std::{cell::RefCell, rc::Rc};

use futures_channel::oneshot;
use wasm_bindgen::{JsCast, JsValue, prelude::Closure};
use web_sys::{MessageChannel, MessagePort};

use crate::error::Failure;

/// Waits for one turn by a message to itself. A timer would wait four milliseconds, which is a draft or two.
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
                // Whoever waited may be gone.
                let _ = waiting.send(());
            }
        });
        let (receiving, sending) = (channel.port1(), channel.port2());
        receiving.set_onmessage(Some(on_message.as_ref().unchecked_ref()));
        Ok(Self { sending, receiving, waiting, _on_message: on_message })
    }

    /// Lets the event loop deliver what waits there.
    pub async fn take(&self) {
        let (sender, receiver) = oneshot::channel();
        *self.waiting.borrow_mut() = Some(sender);
        if self.sending.post_message(&JsValue::NULL).is_ok() {
            let _ = receiver.await;
        }
    }
}

impl Drop for Turn {
    /// An open port with a listener is never freed.
    fn drop(&mut self) {
        self.receiving.set_onmessage(None);
        self.receiving.close();
    }
}
