"""Training of small draft models for speculative decoding.

The steps, each in a module of its own and each resumable from its files in the output folder's `work/`:

1. `conversations`: the text, the user's own or written by the target;
2. `teacher`: the target's most likely tokens at every answered position;
3. `vocabulary` and `draft`: the tokens that the draft knows, and its network;
4. `training`: distillation, with checkpoints;
5. `export` and `report`: safetensors and GGUF files, the model card, and figures on held-out conversations.
"""
