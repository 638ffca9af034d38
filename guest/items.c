// Gathers items and sends a frame when the next one would not fit.
#include "items.h"

#include "link.h"

static void begin(struct items *items) {
  items->frame = (struct packer){.start = items->bytes, .max = sizeof items->bytes};
  frame_begin(&items->frame, items->type, 0);
}

bool items_add(struct items *items, const struct packer *item) {
  // An item that is longer than any can be is a name the kernel does not give: it is left out.
  if (item->full) return true;
  if (items->frame.length + item->length > sizeof items->bytes && !items_flush(items)) return false;
  if (items->frame.length == 0) begin(items);
  put_bytes(&items->frame, item->start, item->length);
  return true;
}

bool items_flush(struct items *items) {
  return items->frame.length == 0 || items_send(items);
}

bool items_send(struct items *items) {
  if (items->frame.length == 0) begin(items);
  frame_complete(&items->frame, 0);
  size_t length = items->frame.length;
  items->frame.length = 0;
  return link_send(items->bytes, length);
}
