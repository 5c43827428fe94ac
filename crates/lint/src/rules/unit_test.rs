//! Which functions are unit tests: they run a few small batches, often through mocks.

use crate::analysis::FileFacts;
use crate::analysis::facts::ScopeId;

/// Whether the function tests with mocks, which have no graphs.
pub fn has_mocks(facts: &FileFacts<'_>, scope: ScopeId) -> bool {
    is_unit_test(facts, scope) && facts.index.imports.values().any(|path| path.starts_with("unittest.mock"))
}

/// `test_shapes()`, a test that pytest calls, or a method of a class of tests: who evaluates a model takes it, or goes through
/// batches.
pub fn is_unit_test(facts: &FileFacts<'_>, scope: ScopeId) -> bool {
    facts.function(scope).is_some_and(|function| {
        let declared = &facts.index.functions[function];
        match declared.class {
            Some(class) => {
                let class = &facts.index.classes[class];
                let has_tests = class.methods.keys().any(|name| name.starts_with("test_") || *name == "setUp");
                // A trainer has methods named after tests too, and a tester evaluates.
                class.name.contains("Test") && has_tests
                    || class.bases.iter().any(|base| base.ends_with("TestCase") || base.ends_with("Test"))
            }
            None => {
                let mut imports = facts.index.imports.values();
                let is_called_by_pytest =
                    imports.any(|path| path.starts_with("pytest") || path.starts_with("unittest"));
                let has_parameters = declared.parameters.iter_non_variadic_params().next().is_some();
                declared.name.starts_with("test_") && (is_called_by_pytest || !has_parameters)
            }
        }
    })
}
