//! An invalid sketch is refused with what was found, where, and what was needed.

use vramfit_graph::bind::bind;
use vramfit_graph::select::Sizes;
use vramfit_readers::read_sketch;

fn refusal(text: &str) -> String {
    read_sketch(text).expect_err("it is none").to_string()
}

/// A file with these layers for an input of `[batch, 10]`.
fn layers(layers: &str) -> String {
    refusal(&format!("input = [\"batch\", 10]\nlayers = [{layers}]"))
}

#[test]
fn what_is_no_toml_is_refused_with_its_line() {
    let words = refusal("input = [3]\n\nlayers == []\n");
    assert!(words.starts_with("line 3: "), "{words}");
}

#[test]
fn keys_that_are_missing_unknown_or_of_another_kind_are_named() {
    assert_eq!(refusal("layers = [\"ReLU()\"]"), "the file: found no `input`, needed one: a list");
    assert_eq!(refusal("input = [3]"), "the file: found no `layers`, needed one: a list");
    assert_eq!(
        refusal("inputs = [3]\nlayers = [\"ReLU()\"]"),
        "the file: found key `inputs`, needed name, input, dtype, sizes, layers; did you mean input?"
    );
    assert_eq!(
        refusal("input = [3]\ndtype = \"int7\"\nlayers = [\"ReLU()\"]"),
        "dtype: found `\"int7\"`, needed \"float32\", \"int64\" or \"int32\""
    );
    assert_eq!(
        refusal("input = [0]\nlayers = [\"ReLU()\"]"),
        "input: found `0`, needed whole numbers from 1 on and names such as \"batch\""
    );
    assert_eq!(
        refusal("input = [\"batch\", \"seq\"]\nlayers = [\"ReLU()\"]"),
        "sizes.seq: found nothing, needed its default: sizes = { seq = 128 }"
    );
    assert_eq!(
        refusal("input = [3]\nsizes = { batch = 3 }\nlayers = [\"ReLU()\"]"),
        "sizes: found size `batch`, needed names that `input` has"
    );
}

#[test]
fn a_layer_that_is_not_known_comes_with_those_near_it() {
    assert_eq!(
        layers("\"Liner(10, 3)\""),
        "layers[0]: found layer `Liner`, which model.toml does not support; did you mean Linear?"
    );
    assert_eq!(layers("\"Unfold(3)\""), "layers[0]: found layer `Unfold`, which model.toml does not support");
}

#[test]
fn arguments_are_held_against_those_that_are_modelled() {
    assert_eq!(
        layers("\"Linear(10, 3, biased=False)\""),
        "layers[0]: Linear has no modelled argument `biased`; did you mean bias?"
    );
    assert_eq!(
        layers("\"Linear(10)\""),
        "layers[0]: Linear(out_features): found nothing, needed a whole number from 1 on"
    );
    assert_eq!(
        layers("\"Linear(10, 0)\""),
        "layers[0]: Linear(out_features): found `0`, needed a whole number from 1 on"
    );
    assert_eq!(
        layers("\"ReLU()\", \"Linear(10, 3, True, 4)\""),
        "layers[1]: found 4 arguments without a name, needed at most 3: in_features, out_features, bias"
    );
    assert_eq!(
        layers("\"Linear(10, 3, in_features=10)\""),
        "layers[0]: found argument `in_features` twice, needed it once"
    );
    assert!(layers("\"Linear(10, 3\"").starts_with("layers[0]: found `Linear(10, 3`, needed a layer such as"));
    assert_eq!(
        layers("\"Linear(10, 1000000000000000000)\""),
        "layers[0]: Linear(out_features): found `1000000000000000000`, needed at most 1099511627775"
    );
    assert_eq!(
        layers("\"Conv2d(3, 8, (3, 3, 3))\""),
        "layers[0]: Conv2d(kernel_size): found `(3, 3, 3)`, needed a whole number from 1 on, or 2 of them"
    );
    assert_eq!(
        layers("\"MaxPool2d(2, padding=2)\""),
        "layers[0]: MaxPool2d(padding): found `2`, needed at most half of kernel_size"
    );
    assert!(layers("\"MultiheadAttention(10, 3)\"").contains("a divisor of embed_dim, which is 10"));
}

#[test]
fn shapes_that_do_not_fit_name_the_layer_what_comes_in_and_what_it_needs() {
    assert_eq!(
        layers("\"Linear(10, 20)\", \"ReLU()\", \"head = Linear(21, 3)\""),
        "layer head (Linear): [batch, 20] comes in, the last size must be in_features, 21"
    );
    assert_eq!(
        layers("{ name = \"block\", layers = [\"Conv2d(3, 8, 3)\"] }"),
        "layer block.0 (Conv2d): [batch, 10] comes in, [batch, 3, height, width] is needed"
    );
    assert_eq!(
        layers("\"Embedding(10, 3)\""),
        "layer 0 (Embedding): [batch, 10] comes in, an embedding takes whole numbers: set dtype = \"int64\""
    );
    assert_eq!(
        refusal("input = [\"batch\", 10]\ndtype = \"int64\"\nlayers = [\"Linear(10, 3)\"]"),
        "layer 0 (Linear): [batch, 10] comes in, a linear layer takes no whole numbers: leave out dtype, or put an \
         Embedding before it"
    );
    assert_eq!(
        layers("{ residual = [\"Linear(10, 20)\"] }"),
        "layer 0 (Residual): [batch, 10] comes in, but the body makes [batch, 20] of it and the other side of the sum is \
         [batch, 10]"
    );
}

#[test]
fn tables_that_say_two_things_are_refused() {
    assert!(layers("{ residual = [\"ReLU()\"], repeat = 3 }").contains("`residual` and `repeat`"));
    assert!(layers("{ shortcut = [\"ReLU()\"], layers = [\"ReLU()\"] }").contains("`shortcut` without `residual`"));
    assert!(layers("{ layers = [] }").contains("a list with something in it"));
    assert!(layers("{ repeat = 0, layers = [\"ReLU()\"] }").contains("a whole number from 1 on"));
    assert!(layers("{ repeat = 1000000, layers = [\"ReLU()\"] }").contains("at most 20000"));
    assert!(layers("\"a = ReLU()\", \"a = ReLU()\"").contains("the name `a` twice"));
    assert!(layers("3").contains("a layer as text"));
}

#[test]
fn a_size_beyond_64_bits_is_refused_when_the_model_is_bound() {
    let model =
        read_sketch("input = [1099511627775, 1099511627775]\nlayers = [\"Flatten(0)\"]").expect("it is a sketch");
    let error = bind(&model, 0, &Sizes::example(&model).expect("it has no symbols")).expect_err("it is too large");
    assert!(error.to_string().contains("takes more than 1125899906842624 bytes"), "{error}");
}

#[test]
fn layers_may_nest() {
    let nested = |depth: usize| {
        let (open, close) = ("{ layers = [".repeat(depth), "] }".repeat(depth));
        read_sketch(&format!("input = [\"n\"]\nsizes = {{ n = 3 }}\nlayers = [{open}\"ReLU()\"{close}]"))
    };
    let model = nested(20).expect("it is a sketch");
    assert!(model.modules.iter().any(|module| module.path.as_deref() == Some(&["0"; 21].join("."))));
    assert_eq!(
        nested(60).map(|_| ()).expect_err("it nests too deep").to_string(),
        "line 3: cannot recurse further; max recursion depth met"
    );
}
