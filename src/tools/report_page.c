#include "config.h"
#include "tools/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Lines of the template that are replaced. */
#define MARK_TITLE "@title@"
#define MARK_SUMMARY "@summary@"
#define MARK_DATA "@data@"

/* In JSON, '<' occurs only in strings. Without it, no text can end the element
 * that contains the JSON. */
static void put_data(FILE *stream, const char *json)
{
    for (; *json != '\0'; ++json) {
        if (*json == '<') {
            fputs("\\u003c", stream);
        } else {
            fputc(*json, stream);
        }
    }
}

static void put_text(FILE *stream, const char *text)
{
    for (; *text != '\0'; ++text) {
        switch (*text) {
        case '<':
            fputs("&lt;", stream);
            break;
        case '>':
            fputs("&gt;", stream);
            break;
        case '&':
            fputs("&amp;", stream);
            break;
        default:
            fputc(*text, stream);
        }
    }
}

static int put_summary(FILE *stream, const report_model_t *model)
{
    report_facts_t facts = report_facts(model);
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);

    if (memory == NULL) {
        return -ENOMEM;
    }
    report_summary(memory, model, &facts);
    if (fclose(memory) != 0) {
        free(text);
        return -ENOMEM;
    }
    put_text(stream, text);
    free(text);
    return 0;
}

int report_page(FILE *stream, const report_model_t *model)
{
    char *json = NULL;
    size_t size;
    FILE *memory = open_memstream(&json, &size);
    int ret = (memory == NULL) ? -ENOMEM : 0;

    if (memory != NULL) {
        report_json(memory, model);
        ret = (fclose(memory) != 0) ? -ENOMEM : 0;
    }
    for (unsigned i = 0; (ret == 0) && (report_template[i] != NULL); ++i) {
        const char *line = report_template[i];

        if (strcmp(line, MARK_TITLE) == 0) {
            put_text(stream,
                     (model->job[0] != '\0') ? model->job : "without a name");
        } else if (strcmp(line, MARK_SUMMARY) == 0) {
            ret = put_summary(stream, model);
        } else if (strcmp(line, MARK_DATA) == 0) {
            put_data(stream, json);
        } else {
            fputs(line, stream);
            fputc('\n', stream);
        }
    }
    free(json);
    return ret;
}
