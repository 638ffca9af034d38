// What is composed for the control connection and not sent yet: bounded, so the rest waits where it is.
#ifndef CATNAP_OUTBOX_H
#define CATNAP_OUTBOX_H

#include <sys/uio.h>

#include "cursor.h"
#include "protocol.h"
#include "state.h"

enum {
  // As much as an init of any revision takes over.
  OUTBOX_BYTES = 64 * 1024,
  // Room for the longest answer, and for what one process sends in a turn besides output.
  ANSWER_BYTES = 512,
};

enum flush_result { FLUSH_DONE, FLUSH_FULL, FLUSH_GONE };

size_t outbox_room(void);
// Frames are put into a packer over the free room, and count once added.
struct packer outbox_packer(void);
void outbox_add(const struct packer *packer);
void outbox_clear(void);
// Sends without waiting: FLUSH_FULL when the socket takes no more now, FLUSH_GONE when nobody reads it any more.
enum flush_result outbox_flush(int fd);
// Ends what is composed with the bytes of the pieces: few are composed, too; many are sent at once, and what is not sent is composed.
enum flush_result outbox_send(int fd, const struct iovec *piece, int piece_count);

void outbox_save(struct state_writer *writer);
bool outbox_load(struct state_reader *reader);

#endif
