"""How the command line tells a model of workloads."""

from assistant.applications.generating import Model, shown_value


def model_dict(model: Model) -> dict[str, object]:
    """Return a model as one object; arrays by their shapes."""
    return {
        "generator": model.generator, "source": model.source, "digest": model.digest,
        "parameters": dict(model.parameters),
        "arrays": {name: list(array.shape) for name, array in model.arrays.items()},
    }  # fmt: skip


def model_lines(model: Model) -> list[str]:
    """Return a model in lines: where it comes from, and every parameter."""
    lines = [model.source] if model.source else []
    lines += [f"{name} = {shown_value(value)}" for name, value in model.parameters.items()]
    lines += [
        f"array {name}: {' x '.join(f'{n:,}' for n in array.shape)}"
        for name, array in model.arrays.items()
    ]
    return lines
