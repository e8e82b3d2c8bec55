//! Real servers, faults, killable holders and history checks for the tests.
