"""The official client of OpenAI's API against `outrider serve`: cargo xtask test e2e runs it.

usage: openai_client.py BASE_URL
"""

import sys

import openai

PROMPT = "Once upon a time"


def main(base_url: str) -> None:
    client = openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=60)
    [model] = [model.id for model in client.models.list()]
    assert client.models.retrieve(model).id == model

    whole = client.completions.create(model=model, prompt=PROMPT, max_tokens=32, temperature=0)
    text = whole.choices[0].text
    assert len(text) > 20 and whole.choices[0].finish_reason in ("length", "stop"), whole
    usage = whole.usage
    assert usage.completion_tokens <= 32 and usage.total_tokens == usage.prompt_tokens + usage.completion_tokens

    options = {"include_usage": True}
    chunks = list(
        client.completions.create(
            model=model, prompt=PROMPT, max_tokens=32, temperature=0, stream=True, stream_options=options
        )
    )
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == text
    assert chunks[-1].usage == usage and not chunks[-1].choices, chunks[-1]
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason

    stop = text[12:16]
    stopped = client.completions.create(model=model, prompt=PROMPT, max_tokens=32, temperature=0, stop=stop)
    assert stopped.choices[0].text == text[: text.index(stop)], stopped
    assert stopped.choices[0].finish_reason == "stop"

    seeded = [
        client.completions.create(model=model, prompt=PROMPT, max_tokens=24, seed=seed).choices[0].text
        for seed in (7, 7, 8)
    ]
    assert seeded[0] == seeded[1] != seeded[2], seeded

    messages = [{"role": "system", "content": "Tell a tale."}, {"role": "user", "content": "Go on, s'il te plaît."}]
    chat = {"model": model, "messages": messages, "temperature": 0, "max_completion_tokens": 24}
    answer = client.chat.completions.create(**chat)
    assert answer.choices[0].message.role == "assistant" and answer.choices[0].message.content
    with client.chat.completions.create(**chat, stream=True) as stream:
        pieces = [chunk.choices[0].delta.content or "" for chunk in stream]
    assert "".join(pieces) == answer.choices[0].message.content and len(pieces) > 4

    # The built-in pair's form of a conversation has no place for tools.
    tool = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    assert client.chat.completions.create(**chat, tools=[tool], tool_choice="none").choices == answer.choices
    try:
        client.chat.completions.create(**chat, tools=[tool])
    except openai.BadRequestError as refused:
        assert refused.param == "tools", refused
    else:
        raise AssertionError("tools were dropped")

    # Several texts, and what the model says of their tokens.
    told = client.completions.create(model=model, prompt=PROMPT, max_tokens=8, n=2, logprobs=3, seed=1)
    for choice in told.choices:
        assert "".join(choice.logprobs.tokens) == choice.text, choice
        # The chosen token is listed in any case.
        for token, top in zip(choice.logprobs.tokens, choice.logprobs.top_logprobs, strict=True):
            assert 3 <= len(top) <= 4 and token in top
    chat = client.chat.completions.create(
        model=model, messages=messages, max_tokens=8, temperature=0, logprobs=True, top_logprobs=2
    )
    assert all(token.token == token.top_logprobs[0].token for token in chat.choices[0].logprobs.content)

    # A client that goes away in the middle.
    with client.chat.completions.create(model=model, messages=messages, stream=True) as stream:
        next(iter(stream))

    for error, request in [
        (openai.NotFoundError, {"model": "gpt", "prompt": PROMPT}),
        (openai.BadRequestError, {"model": model, "prompt": PROMPT, "n": 17}),
        (openai.BadRequestError, {"model": model, "prompt": PROMPT, "logprobs": 6}),
        (openai.BadRequestError, {"model": model, "prompt": PROMPT, "presence_penalty": 3.0}),
        (openai.BadRequestError, {"model": model, "prompt": [0] * 100_000}),
    ]:
        try:
            client.completions.create(**request)
        except error as refused:
            assert refused.body["message"], refused
            print(f"{refused.status_code} {refused.code}: {refused.body['message']}")
        else:
            raise AssertionError(f"{request} was not refused")
    print(f"openai {openai.__version__}: {model!r} wrote {text!r}")


if __name__ == "__main__":
    main(*sys.argv[1:])
