/* A function here that fails writes one sentence and returns false. The database's code puts
 * its function's name before the sentence and raises the error. */
#ifndef TUSK_SENTENCE_H
#define TUSK_SENTENCE_H

#define TUSK_SENTENCE 512 /* size of the buffer for a sentence */

#endif
