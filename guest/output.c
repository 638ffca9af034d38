// What processes write: read from their pipes into windows, handed on as frames, forgotten when acknowledged.
#include "output.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "leftover.h"
#include "messages.h"
#include "turns.h"

// More than a terminal holds between its two sides: what comes after that was written after its process had ended.
enum { TERMINAL_HELD_MAX = 128 * 1024 };

// What the host allows of each stream; more than a narrow ring only since it said so on this connection.
static uint32_t window = WINDOW_BYTES;
// While the init is being replaced: its successor may know nothing of wide windows.
static bool is_narrowed;
static bool starved;

// The process was reaped, or the stream cut: what may still come was there at that moment.
static bool has_ended(const struct stream *stream) { return stream->limit != UINT64_MAX; }

static bool is_wide_allowed(void) { return window > WINDOW_BYTES && !is_narrowed; }

static uint64_t held(const struct stream *stream) { return stream->received - stream->acked; }

static size_t room(const struct stream *stream) {
  bool is_wide = stream->ring.bytes != NULL && stream->ring.size > WINDOW_BYTES && is_wide_allowed();
  uint64_t allowed = is_wide ? window : WINDOW_BYTES;
  // What a former host allowed may be held still.
  uint64_t free_bytes = allowed > held(stream) ? allowed - held(stream) : 0;
  uint64_t wanted = stream->limit - stream->received;
  return (size_t)(free_bytes < wanted ? free_bytes : wanted);
}

// Room for more, if there may be any.
static size_t make_room(struct stream *stream) {
  size_t length = room(stream);
  if (length > 0 || stream->ring.bytes == NULL || stream->received == stream->limit || !is_wide_allowed()) return length;
  return ring_widen(&stream->ring, stream->acked, stream->received) ? room(stream) : 0;
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
  else loop_watch(&stream->source, make_room(stream) > 0 ? EPOLLIN : 0);
}

// Reads once; false when nothing was read.
static bool fill(struct stream *stream) {
  if (stream->source.fd < 0) return false;
  size_t length = make_room(stream);
  if (length == 0) return false;
  if (stream->ring.bytes == NULL && !ring_take(&stream->ring, stream->received)) {
    starved = true;
    loop_watch(&stream->source, 0);
    return false;
  }
  struct iovec piece[2];
  int piece_count = ring_pieces(&stream->ring, stream->received, length, piece);
  ssize_t got = readv(stream->source.fd, piece, piece_count);
  if (got > 0) {
    stream->received += (uint64_t)got;
    turns_add(stream->process);
    return true;
  }
  bool is_over = got == 0 || (errno != EAGAIN && errno != EINTR);
  if (is_over) loop_close(&stream->source);
  // The kernel answers EAGAIN only after it has handed on everything that was written, to us or to whoever else reads there.
  if (is_over || (has_ended(stream) && errno == EAGAIN)) {
    if (stream->limit > stream->received) stream->limit = stream->received;
    let_go(stream);
    turns_add(stream->process);
  }
  if (stream->received == stream->acked) ring_give(&stream->ring, stream->received);
  return false;
}

static void stream_ready(struct source *source, uint32_t events) {
  (void)events;
  struct stream *stream = (struct stream *)source;
  fill(stream);
  if (stream->ring.bytes != NULL || stream->source.fd < 0) listen_while_room(stream);
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
  int readable = stream->is_terminal ? TERMINAL_HELD_MAX : 0;
  if (stream->source.fd < 0 || (!stream->is_terminal && ioctl(stream->source.fd, FIONREAD, &readable) != 0)) readable = 0;
  stream->limit = stream->received + (uint64_t)readable;
  drain(stream);
  listen_while_room(stream);
}

bool stream_sent(const struct stream *stream) {
  return stream->received == stream->limit && stream->sent == stream->received;
}

void stream_release(struct stream *stream) {
  ring_give(&stream->ring, stream->received);
  let_go(stream);
}

// Unsent bytes the host allows: a former one may have allowed more.
static uint64_t sendable(const struct stream *stream) {
  uint64_t end = stream->received - stream->acked > window ? stream->acked + window : stream->received;
  return end > stream->sent ? end - stream->sent : 0;
}

bool stream_ack(struct stream *stream, uint64_t offset) {
  if (offset > stream->sent) return false;
  if (offset <= stream->acked) return true;
  stream->acked = offset;
  if (stream->acked == stream->received) ring_give(&stream->ring, stream->received);
  // What is empty raises no event: whether it is has to be asked.
  if (has_ended(stream)) drain(stream);
  listen_while_room(stream);
  if (sendable(stream) > 0) turns_add(stream->process);
  return true;
}

int stream_put(struct stream *stream, struct packer *packer, struct iovec piece[2]) {
  uint64_t left = sendable(stream);
  if (left == 0) return 0;
  size_t length = left < OUTPUT_CHUNK_MAX ? (size_t)left : OUTPUT_CHUNK_MAX;
  encode_output_head(packer, stream->process->channel, stream->number, stream->sent, (uint32_t)length);
  int piece_count = ring_pieces(&stream->ring, stream->sent, length, piece);
  stream->sent += length;
  return piece_count;
}

void stream_rewind(struct stream *stream) { stream->sent = stream->acked; }

// Every stream is read on, or no more, as what is allowed has changed; whether all of them hold no more than any init takes over.
static bool listen_again(void) {
  bool fits = true;
  for (uint32_t i = 0; i < process_count(); i++) {
    for (int j = 0; j < 2; j++) {
      struct stream *stream = &process_at(i)->streams[j];
      fits = fits && held(stream) <= WINDOW_BYTES;
      listen_while_room(stream);
    }
  }
  return fits;
}

void output_set_window(uint32_t bytes) {
  window = bytes < WIDE_WINDOW_BYTES ? bytes : WIDE_WINDOW_BYTES;
  for (uint32_t i = 0; i < process_count(); i++) turns_add(process_at(i));
  listen_again();
}

bool output_narrow(bool narrow) {
  is_narrowed = narrow;
  return listen_again();
}

bool output_starved(void) { return starved; }

void output_retry(void) {
  starved = false;
  for (uint32_t i = 0; i < process_count(); i++) {
    for (int j = 0; j < 2; j++) {
      struct stream *stream = &process_at(i)->streams[j];
      if (stream->source.fd < 0 || stream->source.events != 0 || room(stream) == 0) continue;
      if (has_ended(stream)) drain(stream);
      if (stream->source.fd >= 0 && !loop_watch(&stream->source, EPOLLIN)) starved = true;
    }
  }
}

void stream_save(struct state_writer *writer, const struct stream *stream) {
  state_put_fd(writer, stream->source.fd);
  struct packer *packer = state_room(writer, 64);
  put_u8(packer, stream->is_terminal ? 1 : 0);
  // For an init that tells the end of a terminal by it.
  put_u8(packer, stream->is_terminal && has_ended(stream) ? 1 : 0);
  put_u64(packer, stream->acked);
  put_u64(packer, stream->sent);
  put_u64(packer, stream->received);
  put_u64(packer, stream->limit);
  if (stream->received == stream->acked) return;
  struct iovec piece[2];
  int count = ring_pieces(&stream->ring, stream->acked, (size_t)(stream->received - stream->acked), piece);
  for (int i = 0; i < count; i++) state_put_bytes(writer, piece[i].iov_base, piece[i].iov_len);
}

bool stream_load(struct state_reader *reader, struct stream *stream) {
  struct cursor *cursor = &reader->cursor;
  stream->source.fd = state_take_fd(reader);
  stream->is_terminal = state_take_bool(reader);
  state_take_bool(reader);
  stream->acked = take_u64(cursor);
  stream->sent = take_u64(cursor);
  stream->received = take_u64(cursor);
  stream->limit = take_u64(cursor);
  bool ordered = stream->acked <= stream->sent && stream->sent <= stream->received && stream->received <= stream->limit;
  if (cursor->bad || !ordered || held(stream) > WIDE_WINDOW_BYTES) return false;
  size_t length = (size_t)(stream->received - stream->acked);
  if (length > 0) {
    const uint8_t *bytes = take_bytes(cursor, length);
    if (bytes == NULL || !ring_take(&stream->ring, stream->acked)) return false;
    if (length > WINDOW_BYTES && !ring_widen(&stream->ring, stream->acked, stream->acked)) return false;
    memcpy(stream->ring.bytes, bytes, length);
  }
  if (reader->checks || stream->source.fd < 0) return true;
  if (has_ended(stream)) drain(stream);
  listen_while_room(stream);
  // Refused for want of memory, it is tried again.
  if (stream->source.fd >= 0 && stream->source.events == 0 && room(stream) > 0) starved = true;
  return true;
}
