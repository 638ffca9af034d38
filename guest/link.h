// A worker's side of its connection: blocking, so the socket's buffers are the flow control.
#ifndef CATNAP_LINK_H
#define CATNAP_LINK_H

#include "messages.h"

void link_open(int fd);
int link_descriptor(void);
// False when the host is gone; there is nobody to tell then.
bool link_receive(void *bytes, size_t length);
bool link_receive_header(struct frame_header *header);
bool link_send(const void *bytes, size_t length);
// Whether the host has closed its side, looked at now and then only: for every step of work that may take long without sending anything.
bool link_abandoned(void);
// The second right after the first, in one message where it fits.
bool link_send_both(const void *first, size_t first_length, const void *second, size_t second_length);
// What was promised cannot be sent any more: the host sees the connection end.
void link_break(void);
// Everything was sent as promised.
bool link_is_whole(void);

// Remembers which step failed, for link_send_failure, and returns the errno.
int failed(const char *operation, int error);
// Tells the host and reads what it still sends, so that the answer is not lost to a reset.
void link_send_failure(int error);
void link_send_done(void);
void link_send_attributes(const struct attributes *attributes);

#endif
