//! Access to a GPU adapter: its buffers, and reading back results.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use futures_channel::oneshot;
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, Device, DeviceDescriptor, Error, ErrorFilter, Features, Instance,
    InstanceDescriptor, Limits, MapMode, PowerPreference, Queue, RequestAdapterOptions,
};

use crate::{error::GpuError, subgroups};

/// Number of bytes after a matrix that kernels may read: one word.
const SLACK_BYTES: u64 = 4;

/// Open connection to a GPU device.
#[derive(Debug)]
pub struct Gpu {
    device: Device,
    queue: Queue,
    name: String,
    has_subgroups: bool,
    trouble: Trouble,
}

impl Drop for Gpu {
    /// Destroys the device at once. Otherwise a browser would free its buffers during garbage collection.
    fn drop(&mut self) {
        self.device.destroy();
    }
}

/// Errors outside of calls: the first error, or the loss of the device.
#[derive(Debug, Clone, Default)]
struct Trouble(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    kind: Option<Kind>,
    /// Waker of a task that waits for a result, which a lost device may never deliver.
    waiting: Option<Waker>,
}

#[derive(Debug, Clone)]
enum Kind {
    Lost(String),
    Refused(String),
}

impl Trouble {
    fn set(&self, kind: Kind) {
        let mut state = self.state();
        // Loss of the device is more informative than the errors that it causes.
        if state.kind.is_none() || matches!(kind, Kind::Lost(_)) {
            state.kind = Some(kind);
        }
        let waiting = state.waiting.take();
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Awaits `other`; `None` if the device is lost first.
    async fn unless_lost<R>(&self, other: impl Future<Output = R>) -> Option<R> {
        let mut other = pin!(other);
        poll_fn(|context| {
            if let Poll::Ready(result) = other.as_mut().poll(context) {
                return Poll::Ready(Some(result));
            }
            let mut state = self.state();
            if matches!(state.kind, Some(Kind::Lost(_))) {
                return Poll::Ready(None);
            }
            state.waiting = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn check(&self) -> Result<(), GpuError> {
        match self.state().kind.clone() {
            None => Ok(()),
            Some(Kind::Lost(why)) => Err(GpuError::Lost(why)),
            Some(Kind::Refused(why)) => Err(GpuError::Refused(why)),
        }
    }
}

impl Gpu {
    /// Opens the high-performance GPU of the browser or system.
    ///
    /// # Errors
    /// [`GpuError::Unavailable`] if there is no GPU.
    pub async fn open() -> Result<Self, GpuError> {
        Self::open_with(true).await
    }

    /// Variant of [`open`](Self::open) that uses kernels for GPUs without subgroups, for tests.
    ///
    /// # Errors
    /// As for [`open`](Self::open).
    pub async fn open_without_subgroups() -> Result<Self, GpuError> {
        Self::open_with(false).await
    }

    async fn open_with(subgroups_wanted: bool) -> Result<Self, GpuError> {
        let instance = Instance::new(InstanceDescriptor::new_without_display_handle());
        let wanted = RequestAdapterOptions { power_preference: PowerPreference::HighPerformance, ..Default::default() };
        let unavailable = |error: String| GpuError::Unavailable(error);
        let adapter = instance.request_adapter(&wanted).await.map_err(|error| unavailable(error.to_string()))?;
        // A model's tables are larger than what every adapter promises.
        let Limits { max_storage_buffer_binding_size, max_buffer_size, .. } = adapter.limits();
        let descriptor = DeviceDescriptor {
            label: Some("outrider"),
            required_features: Features::empty(),
            required_limits: Limits { max_storage_buffer_binding_size, max_buffer_size, ..Limits::default() },
            ..Default::default()
        };
        let opened = match subgroups_wanted {
            true => subgroups::request_device(&adapter, &descriptor).await,
            false => adapter.request_device(&descriptor).await,
        };
        let (device, queue) = opened.map_err(|error| unavailable(error.to_string()))?;
        let has_subgroups = subgroups::has_them(&device);
        let trouble = Trouble::default();
        let (lost, refused) = (trouble.clone(), trouble.clone());
        device.set_device_lost_callback(move |reason, message| lost.set(Kind::Lost(format!("{reason:?}: {message}"))));
        device.on_uncaptured_error(Arc::new(move |error: Error| refused.set(Kind::Refused(error.to_string()))));
        let info = adapter.get_info();
        let name = if info.name.is_empty() { info.driver.clone() } else { info.name.clone() };
        Ok(Self { device, queue, name, has_subgroups, trouble })
    }

    /// Name of the adapter; browsers reveal little.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns whether kernels use subgroups.
    #[must_use]
    pub fn has_subgroups(&self) -> bool {
        self.has_subgroups
    }

    /// Destroys the device as a browser may do, for tests.
    pub fn lose(&self) {
        self.device.destroy();
    }

    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    pub(crate) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns an error if anything has failed so far.
    pub(crate) fn check(&self) -> Result<(), GpuError> {
        self.trouble.check()
    }

    /// Creates a buffer of `count` four-byte numbers that kernels read and write.
    pub(crate) fn numbers(&self, what: &'static str, count: usize) -> Result<Buffer, GpuError> {
        let usage = BufferUsages::STORAGE | BufferUsages::COPY_DST | BufferUsages::COPY_SRC;
        self.buffer(what, 4 * count as u64, usage)
    }

    /// Creates a buffer with these bytes that kernels read.
    pub(crate) fn holding(&self, what: &'static str, bytes: &[u8]) -> Result<Buffer, GpuError> {
        let buffer = self.room_for(what, bytes.len())?;
        self.write(&buffer, 0, bytes);
        Ok(buffer)
    }

    /// Creates a buffer for `bytes` bytes that kernels read.
    pub(crate) fn room_for(&self, what: &'static str, bytes: usize) -> Result<Buffer, GpuError> {
        let size = (bytes as u64).next_multiple_of(4) + SLACK_BYTES;
        self.buffer(what, size, BufferUsages::STORAGE | BufferUsages::COPY_DST)
    }

    /// Writes bytes at offset `place`, a multiple of four.
    pub(crate) fn write(&self, buffer: &Buffer, place: u64, bytes: &[u8]) {
        // Writes must consist of whole words.
        let (whole, rest) = bytes.split_at(bytes.len() / 4 * 4);
        self.queue.write_buffer(buffer, place, whole);
        if !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            self.queue.write_buffer(buffer, place + whole.len() as u64, &last);
        }
    }

    /// Maximum size in bytes for [`room_for`](Self::room_for).
    pub(crate) fn most_bytes(&self) -> u64 {
        // Kernels compute byte offsets in 32 bits.
        self.largest_buffer().min(u32::MAX.into()) - 2 * SLACK_BYTES
    }

    fn largest_buffer(&self) -> u64 {
        let Limits { max_storage_buffer_binding_size, max_buffer_size, .. } = self.device.limits();
        max_storage_buffer_binding_size.min(max_buffer_size)
    }

    /// Creates a uniform buffer with these words.
    pub(crate) fn constants(&self, words: &[u32]) -> Buffer {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        let usage = BufferUsages::UNIFORM | BufferUsages::COPY_DST;
        let size = bytes.len() as u64;
        let descriptor = BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&descriptor);
        self.queue.write_buffer(&buffer, 0, &bytes);
        buffer
    }

    /// Creates a buffer for reading back results.
    pub(crate) fn returning(&self, bytes: u64) -> Buffer {
        let usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
        self.device.create_buffer(&BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false })
    }

    fn buffer(&self, what: &'static str, size: u64, usage: BufferUsages) -> Result<Buffer, GpuError> {
        let most = self.largest_buffer();
        if size > most {
            return Err(GpuError::TooLarge { what, needed: size, most });
        }
        Ok(self.device.create_buffer(&BufferDescriptor { label: Some(what), size, usage, mapped_at_creation: false }))
    }

    /// Runs work that allocates GPU memory, and fails if there was not enough.
    pub(crate) async fn within_memory<T>(&self, work: impl FnOnce() -> Result<T, GpuError>) -> Result<T, GpuError> {
        let scope = self.device.push_error_scope(ErrorFilter::OutOfMemory);
        let done = work();
        match scope.pop().await {
            Some(error) => Err(GpuError::OutOfMemory(error.to_string())),
            None => done,
        }
    }

    /// Reads the first `bytes` of a [returning](Self::returning) buffer after all submitted work is done.
    pub(crate) async fn read(&self, buffer: &Buffer, bytes: u64) -> Result<Vec<u8>, GpuError> {
        let (done, when_done) = oneshot::channel();
        buffer.slice(..bytes).map_async(MapMode::Read, move |result| {
            let _ = done.send(result);
        });
        // Browsers make progress without polling.
        #[cfg(not(target_arch = "wasm32"))]
        self.device.poll(wgpu::PollType::wait_indefinitely()).map_err(|error| GpuError::Lost(error.to_string()))?;
        let mapped = self.trouble.unless_lost(when_done).await.and_then(Result::ok).and_then(Result::ok);
        self.check()?;
        if mapped.is_none() {
            return Err(GpuError::Lost("what it has computed cannot be read".to_owned()));
        }
        let read = buffer.slice(..bytes).get_mapped_range().map(|view| view.to_vec());
        buffer.unmap();
        read.map_err(|error| GpuError::Refused(error.to_string()))
    }
}
