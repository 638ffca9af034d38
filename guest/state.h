// What one init hands to the next: everything PID 1 knows, in a file without a name. Descriptors are kept and named by number.
#ifndef CATNAP_STATE_H
#define CATNAP_STATE_H

#include <sys/types.h>

#include "cursor.h"

enum { STATE_FORMAT = 1, STATE_BYTES_MAX = 128 * 1024 * 1024 };

struct state_writer {
  int fd;
  // The descriptors put stay open over an exec.
  bool keeps;
  int error;
  uint64_t total;
  struct packer packer;
  uint8_t bytes[4096];
};

// A packer with room for `length` more bytes, at most 4096.
struct packer *state_room(struct state_writer *writer, size_t length);
// Any number of bytes; their length is put by the caller.
void state_put_bytes(struct state_writer *writer, const void *bytes, size_t length);
void state_put_fd(struct state_writer *writer, int fd);

struct state_reader {
  struct cursor cursor;
  // Nothing but whether it can be understood: descriptors are not there and read as -1.
  bool checks;
};

// -1 where none was put.
int state_take_fd(struct state_reader *reader);
// A number of at most `max`.
uint32_t state_take_count(struct state_reader *reader, uint32_t max);
bool state_take_bool(struct state_reader *reader);

struct upgrade_origin {
  uint32_t request;
  char version[33];
};

// 0, or an errno. The file is complete and at its beginning afterwards.
int state_save(int fd, bool keeps, uint32_t request);
// False when it makes no sense; what was built by then is of no use.
bool state_load(int fd, bool checks, struct upgrade_origin *origin);

#endif
