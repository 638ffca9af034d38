// What a host asks for on the control connection.
#ifndef CATNAP_COMMANDS_H
#define CATNAP_COMMANDS_H

#include "cursor.h"

// Needs room for an answer in the outbox. False when the frame breaks the protocol.
bool command_handle(struct frame_header header, const uint8_t *payload);

#endif
