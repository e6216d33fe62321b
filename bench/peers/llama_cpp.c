// llama.cpp as an engine. The lines it speaks are described in bench/src/native/protocol.rs.
//
// llama_cpp MODEL THREADS flash|plain

#include <llama.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CONTEXT = 512 };

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void quiet(enum ggml_log_level level, const char *text, void *data) {
    (void)level, (void)text, (void)data;
}

// Runs `count` tokens from position `first`; waits until the logits, of all or of the last, are there.
static bool run(struct llama_context *context, struct llama_batch *batch, int vocabulary, int first, int count, bool all) {
    const int word = vocabulary > 259 ? 259 : vocabulary - 1;
    batch->n_tokens = count;
    for (int i = 0; i < count; i++) {
        batch->token[i] = word + (int)((long)(first + i) * 37 % (vocabulary - word));
        batch->pos[i] = first + i;
        batch->n_seq_id[i] = 1;
        batch->seq_id[i][0] = 0;
        batch->logits[i] = all || i == count - 1;
    }
    if (llama_decode(context, *batch) != 0) {
        return false;
    }
    return llama_get_logits_ith(context, -1) != NULL;
}

static long peak_kib(void) {
    long kib = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL) {
        sscanf(line, "VmHWM: %ld", &kib);
    }
    if (status != NULL) {
        fclose(status);
    }
    return kib;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: llama_cpp MODEL THREADS flash|plain\n");
        return 2;
    }
    const double began = now_ms();
    llama_log_set(quiet, NULL);
    llama_backend_init();
    struct llama_model_params model_settings = llama_model_default_params();
    model_settings.n_gpu_layers = 0;
    struct llama_model *model = llama_model_load_from_file(argv[1], model_settings);
    if (model == NULL) {
        fprintf(stderr, "llama.cpp does not load %s\n", argv[1]);
        return 1;
    }
    struct llama_context_params settings = llama_context_default_params();
    settings.n_ctx = settings.n_batch = settings.n_ubatch = CONTEXT;
    settings.n_threads = settings.n_threads_batch = atoi(argv[2]);
    settings.flash_attn_type =
        strcmp(argv[3], "flash") == 0 ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
    struct llama_context *context = llama_init_from_model(model, settings);
    if (context == NULL) {
        fprintf(stderr, "llama.cpp makes no context\n");
        return 1;
    }
    const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
    llama_memory_t cache = llama_get_memory(context);
    struct llama_batch batch = llama_batch_init(CONTEXT, 0, 1);
    printf("ready %.4f %s\n", now_ms() - began, llama_print_system_info());
    fflush(stdout);

    int held = 0;
    char line[256];
    while (fgets(line, sizeof line, stdin) != NULL) {
        int rows, cached, times;
        char logits[8];
        if (sscanf(line, "pass %d %d %7s %d", &rows, &cached, logits, &times) == 4) {
            if (rows < 1 || cached < 0 || rows + cached > CONTEXT) {
                printf("no a context of %d tokens\n", CONTEXT);
                fflush(stdout);
                continue;
            }
            if (held != cached) {
                llama_memory_clear(cache, true);
                if (cached > 0 && !run(context, &batch, vocabulary, 0, cached, false)) {
                    return 1;
                }
                held = cached;
            }
            const bool all = strcmp(logits, "all") == 0;
            printf("ok");
            for (int i = 0; i <= times; i++) {
                llama_memory_seq_rm(cache, 0, cached, -1);
                const double start = now_ms();
                if (!run(context, &batch, vocabulary, cached, rows, all)) {
                    return 1;
                }
                if (i > 0) {
                    printf(" %.4f", now_ms() - start);
                }
            }
            printf("\n");
        } else if (strcmp(line, "memory\n") == 0) {
            printf("ok %ld\n", peak_kib());
        } else {
            return 1;
        }
        fflush(stdout);
    }
    return 0;
}
