// The body of a write as it arrives: data frames and an end frame, cut anywhere. No input or output here.
#ifndef CATNAP_UPLOAD_H
#define CATNAP_UPLOAD_H

#include "cursor.h"
#include "protocol.h"

// Zero at the beginning.
struct upload {
  // Bytes of the current data frame that have not come yet.
  uint32_t left;
  uint8_t header[FRAME_HEADER_BYTES];
  size_t header_length;
  bool ended;
};

enum upload_step { UPLOAD_MORE, UPLOAD_CONTENT, UPLOAD_BROKEN };

// Steps through a received piece: UPLOAD_CONTENT with the next run of content in `content` and `content_length`, UPLOAD_MORE when
// the piece is used up (or `ended`), UPLOAD_BROKEN when it breaks the protocol.
enum upload_step upload_next(struct upload *upload, struct cursor *piece, const uint8_t **content, size_t *content_length);

#endif
