// Collecting the processes that ended: the host's, workers, and orphans nobody else waits for.
#ifndef CATNAP_REAP_H
#define CATNAP_REAP_H

void reap_children(void);

#endif
