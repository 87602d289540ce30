/* Finds one member of a JSON object without parsing the rest. */
#ifndef TUSK_JSON_MEMBER_H
#define TUSK_JSON_MEMBER_H

#include "score.h"

/* The value of a member of the outermost object, as written, without the quotes of a string. If
 * several members have the name, the last one counts. data is NULL if there is none, or if the
 * text is not an object. Escapes in names and strings are not decoded. */
tusk_text tusk_json_member(tusk_text json, const char *name);
/* Whether the text is empty, or an object each of whose members has one of these names and a
 * value that is no list or object. */
bool tusk_json_has_only(tusk_text json, const char *const *names, size_t n);

#endif
