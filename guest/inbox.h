// What has come on the control connection and is not handled yet: bounded, so the rest waits in the socket.
#ifndef CATNAP_INBOX_H
#define CATNAP_INBOX_H

#include "cursor.h"
#include "state.h"

enum inbox_result { INBOX_NONE, INBOX_FRAME, INBOX_BROKEN };

void inbox_clear(void);
// Reads once without waiting; false when nobody sends any more.
bool inbox_receive(int fd);
// The first whole frame. Its payload stays until inbox_drop, after which the next one is the first.
enum inbox_result inbox_first(struct frame_header *header, const uint8_t **payload);
void inbox_drop(void);

void inbox_save(struct state_writer *writer);
bool inbox_load(struct state_reader *reader);

#endif
