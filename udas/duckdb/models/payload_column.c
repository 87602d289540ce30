/* model_payload(model): makes the payload from a model's other fields. The macro with_payload
 * puts it into the model. */

#include <stdio.h>
#include <stdlib.h>

#include "../../scalars/models/quoted.h"
#include "model_column.h"

#define NAME "model_payload"
#define FROM_STACK 4096 /* a payload of up to this many bytes needs no allocation */

bool put_payload_of(duckdb_vector v, idx_t row, const tusk_model_fields *fields,
                    last_payload *last, char *sentence) {
    tusk_payload_parts parts = last->parts;
    if (!last->made || !tusk_payload_again(fields, &last->fields, &parts)) {
        last->made = false;
        if (!tusk_payload_of(fields, &parts, sentence))
            return false;
    }
    char small[FROM_STACK];
    size_t size = tusk_payload_size(&parts);
    char *bytes = size <= sizeof small ? small : malloc(size);
    if (!bytes) {
        tusk_payload_free(&parts);
        snprintf(sentence, TUSK_SENTENCE, "out of memory");
        return false;
    }
    tusk_payload_write(&parts, bytes);
    tusk_payload_free(&parts);
    *last = (last_payload){*fields, parts, true};
    duckdb_vector_assign_string_element_len(v, row, bytes, size);
    if (bytes != small)
        free(bytes);
    return true;
}

static void refuse(duckdb_function_info info, const char *sentence) {
    char text[TUSK_SENTENCE + sizeof NAME + 2];
    snprintf(text, sizeof text, NAME ": %s", sentence);
    tusk_make_utf8(text);
    duckdb_scalar_function_set_error(info, text);
}

/* A payload with data that no other field has is kept unchanged, if it is valid. */
static bool keep_payload(duckdb_vector v, idx_t row, tusk_text payload, char *sentence) {
    const char *sqlstate;
    if (!tusk_check_kept(payload, sentence, &sqlstate))
        return false;
    duckdb_vector_assign_string_element_len(v, row, payload.data, payload.length);
    return true;
}

static void put_payloads(duckdb_function_info info, const model_column *models, idx_t n,
                         duckdb_vector result) {
    char sentence[TUSK_SENTENCE];
    last_payload last = {.made = false};
    for (idx_t row = 0; row < n; row++) {
        if (!is_valid(&models->self, row)) {
            set_null(result, row);
            continue;
        }
        if (has_weights_in_payload(models, row)) {
            if (!keep_payload(result, row, text_in(&models->payload, row), sentence)) {
                refuse(info, sentence);
                return;
            }
            continue;
        }
        const char *lost = weights_lost(models, row);
        if (lost) {
            refuse(info, lost);
            return;
        }
        tusk_model_fields fields = model_fields_at(models, row);
        if (!put_payload_of(result, row, &fields, &last, sentence)) {
            refuse(info, sentence);
            return;
        }
    }
}

static void make_payloads(duckdb_function_info info, duckdb_data_chunk chunk,
                          duckdb_vector result) {
    idx_t n = duckdb_data_chunk_get_size(chunk);
    scratch kept = {0};
    model_column models;
    if (model_column_of_any(duckdb_data_chunk_get_vector(chunk, 0), n, &kept, &models)) {
        put_payloads(info, &models, n, result);
    } else if (kept.out_of_memory) {
        refuse(info, "out of memory");
    } else {
        char text[REFUSAL_ROOM];
        write_refusal(NAME, chunk, text);
        duckdb_scalar_function_set_error(info, text);
    }
    scratch_free(&kept);
}

static bool register_one(duckdb_connection connection, bool own) {
    char name[SPELLED];
    duckdb_scalar_function f = duckdb_create_scalar_function();
    duckdb_logical_type any = duckdb_create_logical_type(DUCKDB_TYPE_ANY);
    duckdb_logical_type bytes = duckdb_create_logical_type(DUCKDB_TYPE_BLOB);
    duckdb_scalar_function_set_name(f, spelled(NAME, own, name));
    duckdb_scalar_function_add_parameter(f, any);
    duckdb_scalar_function_set_return_type(f, bytes);
    duckdb_scalar_function_set_special_handling(f);
    duckdb_scalar_function_set_function(f, make_payloads);
    bool done = duckdb_register_scalar_function(connection, f) == DuckDBSuccess;
    duckdb_destroy_logical_type(&any);
    duckdb_destroy_logical_type(&bytes);
    duckdb_destroy_scalar_function(&f);
    return done;
}

bool register_payload(duckdb_connection connection) {
    return register_one(connection, false) && register_one(connection, true);
}
