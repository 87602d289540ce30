/* Functions here that may refuse write one sentence and answer false; the door puts its function's
 * name before the sentence and raises the error. */
#ifndef TUSK_SENTENCE_H
#define TUSK_SENTENCE_H

#define TUSK_SENTENCE 512 /* bytes that a sentence has room for */

#endif
