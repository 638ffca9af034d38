// Writes what PID 1 knows into a file without a name, and builds it up again from one, believing none of it.
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "accept.h"
#include "child.h"
#include "control.h"
#include "leftover.h"
#include "process.h"
#include "protocol.h"
#include "terminal.h"
#include "version.h"
#include "worker.h"

static const char magic[] = "CATS";

static void write_all(struct state_writer *writer, const uint8_t *bytes, size_t length) {
  writer->total += length;
  if (writer->error == 0 && writer->total > STATE_BYTES_MAX) writer->error = EFBIG;
  while (writer->error == 0 && length > 0) {
    // Not through a mapping: memory that is short is an error here, and would be a fatal signal there.
    ssize_t written = write(writer->fd, bytes, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      writer->error = written < 0 ? errno : ENOSPC;
      return;
    }
    bytes += written;
    length -= (size_t)written;
  }
}

static void flush(struct state_writer *writer) {
  write_all(writer, writer->bytes, writer->packer.length);
  writer->packer.length = 0;
}

struct packer *state_room(struct state_writer *writer, size_t length) {
  if (writer->packer.max - writer->packer.length < length) flush(writer);
  return &writer->packer;
}

void state_put_bytes(struct state_writer *writer, const void *bytes, size_t length) {
  flush(writer);
  write_all(writer, bytes, length);
}

void state_put_fd(struct state_writer *writer, int fd) {
  put_u32(state_room(writer, 4), (uint32_t)(fd + 1));
  if (writer->keeps && fd >= 0 && fcntl(fd, F_SETFD, 0) != 0 && writer->error == 0) writer->error = errno;
}

int state_take_fd(struct state_reader *reader) {
  uint32_t number = take_u32(&reader->cursor);
  if (number > DESCRIPTORS_MAX) reader->cursor.bad = true;
  if (number == 0 || reader->checks || reader->cursor.bad) return -1;
  int fd = (int)number - 1;
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) reader->cursor.bad = true;
  return fd;
}

uint32_t state_take_count(struct state_reader *reader, uint32_t max) {
  uint32_t count = take_u32(&reader->cursor);
  if (count > max) reader->cursor.bad = true;
  return reader->cursor.bad ? 0 : count;
}

bool state_take_bool(struct state_reader *reader) {
  uint8_t value = take_u8(&reader->cursor);
  if (value > 1) reader->cursor.bad = true;
  return value == 1;
}

int state_save(int fd, bool keeps, uint32_t request) {
  struct state_writer writer = {.fd = fd, .keeps = keeps};
  writer.packer = (struct packer){.start = writer.bytes, .max = sizeof writer.bytes};
  struct packer *packer = state_room(&writer, 256);
  put_bytes(packer, magic, 4);
  put_u32(packer, STATE_FORMAT);
  put_text(packer, version_text);
  put_u32(packer, request);
  child_save(&writer);
  terminal_save(&writer);
  accept_save(&writer);
  worker_save(&writer);
  leftover_save(&writer);
  process_save(&writer);
  // Last: it goes by what the processes are.
  control_save(&writer);
  flush(&writer);
  if (writer.error == 0 && lseek(fd, 0, SEEK_SET) != 0) writer.error = errno;
  return writer.error;
}

static bool load(struct state_reader *reader, struct upgrade_origin *origin) {
  const uint8_t *found = take_bytes(&reader->cursor, 4);
  if (found == NULL || memcmp(found, magic, 4) != 0 || take_u32(&reader->cursor) != STATE_FORMAT) return false;
  const char *version = take_text(&reader->cursor, VERSION_TEXT_MAX);
  if (version == NULL) return false;
  memset(origin, 0, sizeof *origin);
  strncpy(origin->version, version, sizeof origin->version - 1);
  origin->request = take_u32(&reader->cursor);
  return child_load(reader) && terminal_load(reader) && accept_load(reader) && worker_load(reader) && leftover_load(reader) &&
         process_load(reader) && control_load(reader) && cursor_finished(&reader->cursor);
}

bool state_load(int fd, bool checks, struct upgrade_origin *origin) {
  struct stat status;
  if (fstat(fd, &status) != 0 || status.st_size <= 0 || status.st_size > STATE_BYTES_MAX) return false;
  size_t size = (size_t)status.st_size;
  void *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED) return false;
  struct state_reader reader = {.cursor = {.at = bytes, .left = size}, .checks = checks};
  bool fine = load(&reader, origin);
  munmap(bytes, size);
  return fine;
}
