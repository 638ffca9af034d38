// An answer of many items, packed into frames as large as they may be.
#ifndef CATNAP_ITEMS_H
#define CATNAP_ITEMS_H

#include "cursor.h"
#include "protocol.h"

enum { ITEM_BYTES_MAX = 8 * 1024 };

// Zero but for `type`, the type of the frames.
struct items {
  uint8_t type;
  struct packer frame;
  uint8_t bytes[ENTRIES_PAYLOAD_MAX];
};

// Appends a packed item; false when the host is gone.
bool items_add(struct items *items, const struct packer *item);
// Sends what was added and not sent yet; false when the host is gone.
bool items_flush(struct items *items);
// The same, and with nothing to send an empty frame, which says that the work goes on.
bool items_send(struct items *items);

#endif
