/* Files that pass rows from workers to the leader, and their removal. */
#ifndef TUSK_POSTGRES_PARALLEL_H
#define TUSK_POSTGRES_PARALLEL_H

/* Called once per process, when the library is loaded. */
void watch_transactions(void);

#endif
