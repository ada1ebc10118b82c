/* SPDX-License-Identifier: Apache-2.0 */
/* explain: what an error means, by number or name; needs no device. */
#define _DEFAULT_SOURCE /* strcasecmp */
#include "cli.h"

#include <cjson/cJSON.h>
#include <string.h>
#include <strings.h>

struct explanation {
    const char *name;
    int code;
    const char *text;
    bool retry;
    const char *next_step;
};

static const struct explanation explanations[] = {
#define EXPLANATION(name, code, text, retry, next) {#name, code, text, (retry) != 0, next},
    C7X_STATUS_TABLE(EXPLANATION)
#undef EXPLANATION
};

enum { EXPLANATION_COUNT = sizeof explanations / sizeof explanations[0] };

/* "NOMEM", "C7X_NOMEM", "3": errors are negative, so the sign says nothing and has been dropped. */
static const struct explanation *find(const char *word)
{
    static const char prefix[] = "C7X_";
    uint64_t number;
    bool is_number = cli_parse_u64(word, INT32_MAX, &number);
    if (strncasecmp(word, prefix, sizeof prefix - 1) == 0)
        word += sizeof prefix - 1;
    for (int i = 0; i < EXPLANATION_COUNT; i++) {
        if (is_number ? explanations[i].code == -(int)number
                      : strcasecmp(explanations[i].name, word) == 0)
            return &explanations[i];
    }
    return NULL;
}

static void print_json(const struct explanation *found)
{
    cJSON *object = cli_json_ok();
    cJSON_AddItemToObject(object, "code", cJSON_CreateNumber(found->code));
    cli_json_add_text(object, "name", found->name);
    cli_json_add_text(object, "text", found->text);
    cJSON_AddItemToObject(object, "retry", cJSON_CreateBool(found->retry));
    cli_json_add_text(object, "next_step", found->next_step);
    cli_json_print(object);
}

static void print_text(const struct explanation *found)
{
    printf("%s (%d): %s\n", found->name, found->code, found->text);
    if (found->code != C7X_OK)
        printf("  Same call: %s\n",
               found->retry ? "may succeed later, unchanged" : "will fail again");
    printf("  Next step: %s\n", found->next_step);
}

int cli_explain(struct cli *cli)
{
    const char *word = cli->options.positional[0];
    const struct explanation *found = find(word);
    if (found == NULL)
        return cli_fail(cli, "explain", "no error is called %s; see c7x_compute help errors", word);
    if (cli->options.json)
        print_json(found);
    else
        print_text(found);
    return CLI_DONE;
}
