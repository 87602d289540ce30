// Texts about a group: the names of its features, and its preparation as JSON.
#include <cstdio>

#include "columns.hpp"

namespace tusk {
void add_json_text(std::string &out, std::string_view text) {
    out += '"';
    for (char c : text) {
        char escaped[8];
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if ((unsigned char)c < 0x20) {
            std::snprintf(escaped, sizeof escaped, "\\u%04x", c);
            out += escaped;
        } else {
            out += c;
        }
    }
    out += '"';
}

namespace {

void add_number(std::string &out, double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.17g", x);
    out += text;
}

void add_name(std::string &out, const Column &c, std::string_view level) {
    out.append(c.name).append("[").append(level).append("]");
    out += '\0';
}

// A level as part of a name: in quotation marks if it would be ambiguous.
std::string level_name(const Column &c, std::string_view level, bool combined) {
    const bool taken = (c.may_be_other && level == "other") ||
                       (c.may_be_missing && level == "missing") ||
                       (combined && (level.empty() || level.find(':') != level.npos));
    if (!taken && !c.quoted && !level.starts_with('"'))
        return std::string(level);
    std::string out(1, '"');
    for (char one : level)
        out.append(one == '"' ? 2 : 1, one);
    return out += '"';
}

// The level of a category for a feature, the first one being 0.
std::string level_at(const Column &c, int32_t place) {
    int32_t feature = c.first + place, n = (int32_t)c.levels.size() - c.reference;
    return place < n              ? level_name(c, c.levels[(size_t)(place + c.reference)], true)
           : feature == c.missing ? "missing"
                                  : "other";
}

// The levels of a combination, such as JFK:8; those of numbers are left out.
std::string combined(const Columns &all, const Column &c, uint64_t key) {
    std::string text;
    for (size_t i = c.factors.size(); i--;) {
        const Column &f = all.columns[c.factors[i]];
        int32_t place = (int32_t)(key % (uint64_t)f.width);
        key /= (uint64_t)f.width;
        if (f.kind == Kind::NUMBER)
            continue;
        std::string one = f.is_category() ? level_at(f, place) : place ? "cos" : "sin";
        text = text.empty() ? one : one + ":" + text;
    }
    return text;
}

void add_keys(std::string &out, const Columns &all, const Column &c) {
    for (uint64_t key : c.keys) {
        std::string text = c.kind == Kind::WORDS ? std::string(1, '#').append(std::to_string(key))
                                                 : combined(all, c, key);
        if (text.empty())
            out.append(c.name) += '\0';
        else
            add_name(out, c, text);
    }
}

void add_number_list(std::string &out, const char *name, const auto &numbers) {
    out.append(",\"").append(name).append("\":[");
    bool first = true;
    for (auto x : numbers) {
        out.append(first ? "" : ",").append(std::to_string(x));
        first = false;
    }
    out += ']';
}

void add_source(std::string &out, const Column &c) {
    if (c.name != c.source_name) {
        out += ",\"column\":";
        add_json_text(out, c.source_name);
    }
    if (c.part != TUSK_WHOLE)
        out.append(",\"part\":\"").append(TUSK_PART_NAMES[c.part]).append("\"");
    if (c.of_numbers)
        out += ",\"numbers\":true";
}

void add_category(std::string &out, const Column &c) {
    out += ",\"levels\":[";
    for (size_t k = 0; k < c.levels.size(); k++) {
        if (k)
            out += ',';
        add_json_text(out, c.levels[k]);
    }
    out += ']';
    if (c.reference)
        out += ",\"reference\":true";
    if (c.other != NONE)
        out += ",\"other\":true";
    if (c.missing != NONE)
        out += ",\"missing\":true";
    if (c.fill_level != NONE) {
        out += ",\"fill\":";
        add_json_text(out, c.levels[c.fill_level]);
    }
}

} // namespace

std::string names_of(const Columns &columns) {
    std::string out;
    for (const Column &c : columns.columns) {
        if (c.kind == Kind::NUMBER || c.kind == Kind::LEVELS)
            out.append(c.name) += '\0';
        if (c.kind == Kind::CYCLE) {
            add_name(out, c, "sin");
            add_name(out, c, "cos");
        }
        bool each = c.kind == Kind::CATEGORY;
        for (size_t k = c.reference; each && k < c.levels.size(); k++)
            add_name(out, c, level_name(c, c.levels[k], false));
        add_keys(out, columns, c);
        if (each && c.other != NONE)
            add_name(out, c, "other");
        if ((each && c.missing != NONE) || c.indicator != NONE)
            add_name(out, c, "missing");
    }
    return out;
}

static void add_column(std::string &out, const Column &c, const tk_preparing *how) {
    static const char *const KINDS[] = {"number",  "category", "cycle",
                                        "product", "words",    "levels"};
    out.append("{\"name\":");
    add_json_text(out, c.name);
    out.append(",\"kind\":\"").append(KINDS[(int)c.kind]).append("\"");
    bool fills = how->missing == TK_MISSING_IMPUTE || how->missing == TK_MISSING_LEVEL;
    if (c.kind != Kind::PRODUCT)
        add_source(out, c);
    if (c.is_category()) {
        add_category(out, c);
    } else if (c.kind == Kind::PRODUCT) {
        add_number_list(out, "factors", c.factors);
        add_number_list(out, "keys", c.keys);
    } else if (c.kind == Kind::WORDS) {
        out.append(",\"bits\":").append(std::to_string(how->word_bits));
        add_number_list(out, "keys", c.keys);
    } else if (fills) {
        out += ",\"fill\":";
        add_number(out, c.fill);
    }
    out.append(c.indicator != NONE ? ",\"indicator\":true}" : "}");
}

std::string json_of(const Columns &columns, const tk_preparing *how) {
    static const char *const MISSING[] = {"skip", "impute", "level", "error", "keep"};
    static const char *const UNSEEN[] = {"other", "error", "null"};
    std::string out = "{\"version\":1,\"missing\":\"";
    out.append(MISSING[how->missing]).append("\",\"unseen\":\"");
    out.append(UNSEEN[how->unseen]).append("\",\"columns\":[");
    for (size_t j = 0; j < columns.columns.size(); j++) {
        out.append(j ? "," : "");
        add_column(out, columns.columns[j], how);
    }
    return out += "]}";
}

} // namespace tusk
