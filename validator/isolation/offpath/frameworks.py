"""Names that classes of packages outside the tree give a meaning of their own: a member below with one is found by it.

Those of `torch.nn.Module` are the names of its public documentation and of its call, hook and state-dict machinery.
"""

from __future__ import annotations

from typing import Final

__all__ = ["MEANINGS"]

_OF_MODULES: Final = frozenset({
    "T_destination", "_apply", "_backward_hooks", "_backward_pre_hooks", "_buffers", "_call_impl",
    "_compiled_call_impl", "_forward_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs", "_get_backward_hooks", "_get_backward_pre_hooks", "_get_name",
    "_is_full_backward_hook", "_load_from_state_dict", "_load_state_dict_post_hooks",
    "_load_state_dict_pre_hooks", "_modules", "_named_members", "_non_persistent_buffers_set", "_parameters",
    "_register_load_state_dict_pre_hook", "_register_state_dict_hook", "_replicate_for_data_parallel",
    "_save_to_state_dict", "_slow_forward", "_state_dict_hooks", "_state_dict_pre_hooks", "_version",
    "_wrapped_call_impl", "add_module", "apply", "bfloat16", "buffers", "call_super_init", "children", "compile",
    "cpu", "cuda", "double", "dump_patches", "eval", "extra_repr", "float", "forward", "get_buffer",
    "get_extra_state", "get_parameter", "get_submodule", "half", "ipu", "load_state_dict", "modules", "mtia",
    "named_buffers", "named_children", "named_modules", "named_parameters", "parameters",
    "register_backward_hook", "register_buffer", "register_forward_hook", "register_forward_pre_hook",
    "register_full_backward_hook", "register_full_backward_pre_hook", "register_load_state_dict_post_hook",
    "register_load_state_dict_pre_hook", "register_module", "register_parameter", "register_state_dict_post_hook",
    "register_state_dict_pre_hook", "requires_grad_", "set_extra_state", "set_submodule", "share_memory",
    "state_dict", "to", "to_empty", "train", "training", "type", "xpu", "zero_grad",
})  # fmt: skip
_OF_FUNCTIONS: Final = frozenset({
    "forward", "backward", "vjp", "jvp", "vmap", "setup_context", "apply", "generate_vmap_rule", "is_traceable",
    "mark_dirty", "once_differentiable", "clear_saved_tensors_on_access",
})  # fmt: skip
_OF_MODELS: Final = frozenset({
    "Config", "construct", "copy", "dict", "from_orm", "json", "model_config", "model_computed_fields",
    "model_construct", "model_copy", "model_dump", "model_dump_json", "model_extra", "model_fields",
    "model_fields_set", "model_json_schema", "model_parametrized_name", "model_post_init", "model_rebuild",
    "model_validate", "model_validate_json", "model_validate_strings", "parse_file", "parse_obj", "parse_raw",
    "schema", "schema_json", "settings_customise_sources", "update_forward_refs", "validate",
})  # fmt: skip
MEANINGS: Final = {
    "Module": _OF_MODULES, "Function": _OF_FUNCTIONS, "BaseModel": _OF_MODELS, "BaseSettings": _OF_MODELS,
}  # fmt: skip
"""Last name of the class → names."""
