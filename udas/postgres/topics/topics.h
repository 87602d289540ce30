/* Models of topics and their documents, for several functions. */
#ifndef TUSK_POSTGRES_TOPICS_H
#define TUSK_POSTGRES_TOPICS_H

#include "../features/features.h"
#include "../features/words.h"

#include "../../scalars/topics/topics.h"

/* A model, kept as long as the next rows have the same bytes, and state to read their
   documents. */
typedef struct topic_site {
    MemoryContext model; /* for data of the last model read */
    const void *bytes;   /* NULL: none yet */
    Size size;
    tusk_topics topics;
    tusk_inference by;
    document_reader reader;
    number_buffer buffer;
} topic_site;

topic_site *new_topic_site(MemoryContext context);
/* Whether a model is the one that was read last. */
bool is_model_of(const topic_site *site, Datum model);
/* Reads a model unless it was read last. False for a model without topics. */
bool expect_model(topic_site *site, Datum model, const char *function);
/* Whether a row's argument is a list of words; rejects types that are not documents of the
   model. */
bool takes_words(FunctionCallInfo fcinfo, const topic_site *site, int argument,
                 const char *function);
/* Counts the words of a row, which has tokens. False if sparse ones have NULLs. */
bool count_row(FunctionCallInfo fcinfo, topic_site *site, int argument, const char *function,
               tusk_word_counts *counts);
pg_noreturn void refuse_topics(const char *function, const char *sqlstate, const char *sentence);

#endif
