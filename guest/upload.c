// The body of a write as it arrives: data frames and an end frame, cut anywhere.
#include "upload.h"

#include <string.h>

static void take_header(struct upload *upload, struct cursor *piece) {
  size_t missing = FRAME_HEADER_BYTES - upload->header_length;
  size_t part = piece->left < missing ? piece->left : missing;
  memcpy(upload->header + upload->header_length, piece->at, part);
  upload->header_length += part;
  piece->at += part;
  piece->left -= part;
}

enum upload_step upload_next(struct upload *upload, struct cursor *piece, const uint8_t **content, size_t *content_length) {
  while (piece->left > 0) {
    if (upload->ended) return UPLOAD_BROKEN;
    if (upload->left > 0) {
      size_t part = piece->left < upload->left ? piece->left : upload->left;
      *content = piece->at;
      *content_length = part;
      upload->left -= (uint32_t)part;
      piece->at += part;
      piece->left -= part;
      return UPLOAD_CONTENT;
    }
    take_header(upload, piece);
    if (upload->header_length < FRAME_HEADER_BYTES) return UPLOAD_MORE;
    struct frame_header header = read_frame_header(upload->header);
    upload->header_length = 0;
    upload->ended = header.type == FRAME_END && header.length == 0;
    if (!upload->ended && (header.type != FRAME_DATA || header.length > DATA_PAYLOAD_MAX)) return UPLOAD_BROKEN;
    upload->left = header.length;
  }
  return UPLOAD_MORE;
}
