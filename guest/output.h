// What processes write: read from their pipes into a window of unacknowledged bytes, kept until the host acknowledges it.
#ifndef CATNAP_OUTPUT_H
#define CATNAP_OUTPUT_H

#include "cursor.h"
#include "process.h"
#include "state.h"

void stream_begin(struct stream *stream, struct process *process, uint8_t number);
// Starts reading a pipe, or a terminal's other side.
void stream_open(struct stream *stream, int fd, bool is_terminal);
// For a stream that does not exist: nothing will ever come.
void stream_none(struct stream *stream);
// Stops reading for good; what was read stays.
void stream_cut(struct stream *stream);
// The process was reaped: what is in the pipe now is its last output.
void stream_ended(struct stream *stream);
// Whether every byte of an ended process was sent.
bool stream_sent(const struct stream *stream);
// Frees the window. A pipe still open is held by descendants that outlived the process; what they write is thrown away.
void stream_release(struct stream *stream);
// False when the offset was never sent.
bool stream_ack(struct stream *stream, uint64_t offset);
// Puts the beginning of a frame of the next unsent bytes, which are in the pieces; their number, 0 when there are none.
int stream_put(struct stream *stream, struct packer *packer, struct iovec piece[2]);
// Sends from the first unacknowledged byte again.
void stream_rewind(struct stream *stream);
void stream_save(struct state_writer *writer, const struct stream *stream);
// Fills a stream that was begun.
bool stream_load(struct state_reader *reader, struct stream *stream);
// What the host allows to be unacknowledged of each stream.
void output_set_window(uint32_t bytes);
// While `narrow`, nothing is read that an init without wide windows could not take over; whether it could take over what is held.
bool output_narrow(bool narrow);
// Whether memory for a window was refused: call output_retry after a while.
bool output_starved(void);
void output_retry(void);

#endif
