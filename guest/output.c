// What processes write: read from their pipes into windows, handed on as frames, forgotten when acknowledged.
#include "output.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "leftover.h"
#include "messages.h"
#include "turns.h"

// More than a terminal holds between its two sides: what comes after that was written after its process had ended.
enum { TERMINAL_HELD_MAX = 128 * 1024 };

// One window is kept for the next burst, so that short answers of one process after another cost no mapping.
static uint8_t *spare_ring;
static bool starved;

static uint8_t *ring_take(void) {
  uint8_t *ring = spare_ring;
  spare_ring = NULL;
  if (ring != NULL) return ring;
  ring = mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return ring == MAP_FAILED ? NULL : ring;
}

static void ring_give(struct stream *stream) {
  if (stream->ring == NULL) return;
  // A window that was filled has touched all of its pages: those go back to the kernel.
  if (spare_ring == NULL && stream->received - stream->ring_start <= 4096) spare_ring = stream->ring;
  else munmap(stream->ring, WINDOW_BYTES);
  stream->ring = NULL;
}

static size_t room(const struct stream *stream) {
  uint64_t free_bytes = WINDOW_BYTES - (stream->received - stream->acked);
  uint64_t wanted = stream->limit - stream->received;
  return (size_t)(free_bytes < wanted ? free_bytes : wanted);
}

// The two pieces of the ring that hold, or will hold, `length` bytes from `offset`.
static int pieces(const struct stream *stream, uint64_t offset, size_t length, struct iovec piece[2]) {
  size_t begin = (size_t)(offset - stream->ring_start) & (WINDOW_BYTES - 1);
  size_t first = length < WINDOW_BYTES - begin ? length : WINDOW_BYTES - begin;
  piece[0] = (struct iovec){.iov_base = stream->ring + begin, .iov_len = first};
  piece[1] = (struct iovec){.iov_base = stream->ring, .iov_len = length - first};
  return length > first ? 2 : 1;
}

static void let_go(struct stream *stream) {
  if (stream->source.fd < 0) return;
  if (stream->is_terminal) {
    // Hangs up on whoever is left on it, as terminals do.
    loop_close(&stream->source);
    return;
  }
  loop_watch(&stream->source, 0);
  leftover_keep(stream->source.fd);
  stream->source.fd = -1;
}

static void listen_while_room(struct stream *stream) {
  if (stream->source.fd < 0) return;
  if (stream->received == stream->limit) let_go(stream);
  else loop_watch(&stream->source, room(stream) > 0 ? EPOLLIN : 0);
}

// Reads once; false when nothing was read.
static bool fill(struct stream *stream) {
  size_t length = room(stream);
  if (stream->source.fd < 0 || length == 0) return false;
  if (stream->ring == NULL) {
    stream->ring = ring_take();
    stream->ring_start = stream->received;
  }
  if (stream->ring == NULL) {
    starved = true;
    loop_watch(&stream->source, 0);
    return false;
  }
  struct iovec piece[2];
  int piece_count = pieces(stream, stream->received, length, piece);
  ssize_t got = readv(stream->source.fd, piece, piece_count);
  if (got > 0) {
    stream->received += (uint64_t)got;
    turns_add(stream->process);
    return true;
  }
  bool is_over = got == 0 || (errno != EAGAIN && errno != EINTR);
  // The kernel answers EAGAIN only after it has handed on everything that was written.
  if (is_over || (stream->is_draining && errno == EAGAIN)) {
    loop_close(&stream->source);
    if (stream->limit > stream->received) stream->limit = stream->received;
    turns_add(stream->process);
  }
  if (stream->received == stream->acked) ring_give(stream);
  return false;
}

static void stream_ready(struct source *source, uint32_t events) {
  (void)events;
  struct stream *stream = (struct stream *)source;
  fill(stream);
  if (stream->ring != NULL || stream->source.fd < 0) listen_while_room(stream);
}

void stream_begin(struct stream *stream, struct process *process, uint8_t number) {
  stream->source = (struct source){.fd = -1, .ready = stream_ready};
  stream->process = process;
  stream->number = number;
  stream->limit = UINT64_MAX;
}

void stream_open(struct stream *stream, int fd, bool is_terminal) {
  stream->source.fd = fd;
  stream->is_terminal = is_terminal;
  if (!loop_watch(&stream->source, EPOLLIN)) starved = true;
}

void stream_none(struct stream *stream) { stream->limit = 0; }

void stream_cut(struct stream *stream) {
  loop_close(&stream->source);
  if (stream->limit > stream->received) stream->limit = stream->received;
  turns_add(stream->process);
}

static void drain(struct stream *stream) {
  while (fill(stream)) continue;
}

void stream_ended(struct stream *stream) {
  int readable = 0;
  if (stream->is_terminal && stream->source.fd >= 0) {
    stream->is_draining = true;
    stream->limit = stream->received + TERMINAL_HELD_MAX;
    drain(stream);
    listen_while_room(stream);
    return;
  }
  if (stream->source.fd >= 0 && ioctl(stream->source.fd, FIONREAD, &readable) != 0) readable = 0;
  stream->limit = stream->received + (uint64_t)readable;
  drain(stream);
  listen_while_room(stream);
}

bool stream_sent(const struct stream *stream) {
  return stream->received == stream->limit && stream->sent == stream->received;
}

void stream_release(struct stream *stream) {
  ring_give(stream);
  let_go(stream);
}

bool stream_ack(struct stream *stream, uint64_t offset) {
  if (offset > stream->sent) return false;
  if (offset <= stream->acked) return true;
  stream->acked = offset;
  if (stream->acked == stream->received) ring_give(stream);
  // An empty terminal raises no event: whether it is empty has to be asked.
  if (stream->is_draining) drain(stream);
  listen_while_room(stream);
  return true;
}

bool stream_put(struct stream *stream, struct packer *packer) {
  uint64_t left = stream->received - stream->sent;
  if (left == 0) return false;
  size_t length = left < OUTPUT_CHUNK_MAX ? (size_t)left : OUTPUT_CHUNK_MAX;
  struct iovec piece[2];
  int piece_count = pieces(stream, stream->sent, length, piece);
  encode_output_head(packer, stream->process->channel, stream->number, stream->sent, (uint32_t)length);
  for (int i = 0; i < piece_count; i++) put_bytes(packer, piece[i].iov_base, piece[i].iov_len);
  stream->sent += length;
  return true;
}

void stream_rewind(struct stream *stream) { stream->sent = stream->acked; }

bool output_starved(void) { return starved; }

void output_retry(void) {
  starved = false;
  for (uint32_t i = 0; i < process_count(); i++) {
    for (int j = 0; j < 2; j++) {
      struct stream *stream = &process_at(i)->streams[j];
      if (stream->source.fd < 0 || stream->source.events != 0 || room(stream) == 0) continue;
      if (stream->is_draining) drain(stream);
      if (stream->source.fd >= 0 && !loop_watch(&stream->source, EPOLLIN)) starved = true;
    }
  }
}

void stream_save(struct state_writer *writer, const struct stream *stream) {
  state_put_fd(writer, stream->source.fd);
  struct packer *packer = state_room(writer, 64);
  put_u8(packer, stream->is_terminal ? 1 : 0);
  put_u8(packer, stream->is_draining ? 1 : 0);
  put_u64(packer, stream->acked);
  put_u64(packer, stream->sent);
  put_u64(packer, stream->received);
  put_u64(packer, stream->limit);
  if (stream->received == stream->acked) return;
  struct iovec piece[2];
  int count = pieces(stream, stream->acked, (size_t)(stream->received - stream->acked), piece);
  for (int i = 0; i < count; i++) state_put_bytes(writer, piece[i].iov_base, piece[i].iov_len);
}

bool stream_load(struct state_reader *reader, struct stream *stream) {
  struct cursor *cursor = &reader->cursor;
  stream->source.fd = state_take_fd(reader);
  stream->is_terminal = state_take_bool(reader);
  stream->is_draining = state_take_bool(reader);
  stream->acked = take_u64(cursor);
  stream->sent = take_u64(cursor);
  stream->received = take_u64(cursor);
  stream->limit = take_u64(cursor);
  bool ordered = stream->acked <= stream->sent && stream->sent <= stream->received && stream->received <= stream->limit;
  if (cursor->bad || !ordered || stream->received - stream->acked > WINDOW_BYTES) return false;
  size_t length = (size_t)(stream->received - stream->acked);
  if (length > 0) {
    const uint8_t *bytes = take_bytes(cursor, length);
    stream->ring = ring_take();
    stream->ring_start = stream->acked;
    if (bytes == NULL || stream->ring == NULL) return false;
    memcpy(stream->ring, bytes, length);
  }
  if (reader->checks || stream->source.fd < 0) return true;
  if (stream->is_draining) drain(stream);
  listen_while_room(stream);
  // Refused for want of memory, it is tried again.
  if (stream->source.fd >= 0 && stream->source.events == 0 && room(stream) > 0) starved = true;
  return true;
}
