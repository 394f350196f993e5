//! A class of Python whose instances are congestion controls or schedulers.

use super::fault;
use super::shares::SharesScheduler;
use crate::errors::input_error_at;
use anabranch_base::time::Time;
use anabranch_settings::suggest::remedy;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use std::sync::Arc;

pub(super) const CONTROL: &str = "congestion control";
pub(super) const SCHEDULER: &str = "scheduler";

/// A method that a class may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handler {
    Path,
    PathRemoved,
    Usable,
    Mss,
    Ack,
    Loss,
    Recovered,
    Timeout,
    Idle,
    Spurious,
    Penalty,
    Select,
    Blocked,
}

/// The methods of congestion controls.
const OF_CONTROLS: &[(Handler, &str)] = &[
    (Handler::Path, "on_path"),
    (Handler::PathRemoved, "on_path_removed"),
    (Handler::Usable, "on_usable"),
    (Handler::Mss, "on_mss"),
    (Handler::Ack, "on_ack"),
    (Handler::Loss, "on_loss"),
    (Handler::Recovered, "on_recovered"),
    (Handler::Timeout, "on_timeout"),
    (Handler::Idle, "on_idle"),
    (Handler::Spurious, "on_spurious"),
    (Handler::Penalty, "on_penalty"),
];

/// The methods of schedulers.
const OF_SCHEDULERS: &[(Handler, &str)] = &[(Handler::Select, "select"), (Handler::Blocked, "on_blocked")];

/// A class, and which methods it has.
#[derive(Debug)]
pub(super) struct Class {
    kind: &'static str,
    name: &'static str,
    python: Py<PyType>,
    summary: String,
    qualified: String,
    /// The methods that the class has, with their names.
    methods: Vec<(Handler, Py<PyString>)>,
    /// Class attribute `coupled` of a control, or `duplicates` of a scheduler.
    flag: bool,
}

impl Class {
    pub(super) fn of_control(name: &str, class: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        Self::of(CONTROL, name, class, (OF_CONTROLS, "coupled")).map(Arc::new)
    }

    pub(super) fn of_scheduler(name: &str, class: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        let found = Self::of(SCHEDULER, name, class, (OF_SCHEDULERS, "duplicates"))?;
        let has_shares = class.cast::<PyType>()?.is_subclass_of::<SharesScheduler>()?;
        match (found.has(Handler::Select), has_shares) {
            (false, false) => {
                Err(mistake(format!("class {} has no method select(self, offer, paths)", found.qualified)))
            }
            (true, true) => Err(mistake(format!(
                "class {} is a SharesScheduler, which selects paths itself; remove the method select",
                found.qualified
            ))),
            _ => Ok(Arc::new(found)),
        }
    }

    fn of(
        kind: &'static str,
        name: &str,
        class: &Bound<'_, PyAny>,
        (known, flag): (&'static [(Handler, &'static str)], &str),
    ) -> PyResult<Self> {
        let py = class.py();
        let Ok(class) = class.cast::<PyType>() else {
            let given = class.repr()?.to_string();
            return Err(mistake(format!("a {kind} is a class that takes no arguments, not {given}")));
        };
        let qualified = class.fully_qualified_name()?.to_string();
        for attribute in class.dir()? {
            let attribute = attribute.extract::<String>()?;
            if attribute.starts_with("on_") && !known.iter().any(|(_, method)| *method == attribute) {
                let names: Vec<_> = known.iter().map(|(_, method)| *method).collect();
                let remedy = remedy(&attribute, &names, "methods");
                return Err(mistake(format!("class {qualified}: unknown method {attribute}; {remedy}")));
            }
        }
        let mut methods = Vec::new();
        for (handler, method) in known {
            if class.hasattr(*method)? {
                methods.push((*handler, PyString::intern(py, method).unbind()));
            }
        }
        let doc = class.getattr("__doc__")?.extract::<String>().unwrap_or_default();
        let summary = doc.trim().lines().next().unwrap_or_default().trim().trim_end_matches('.').to_owned();
        let set = class.getattr_opt(flag)?.map_or(Ok(false), |value| value.extract());
        let flag = set.map_err(|_| mistake(format!("class {qualified}: {flag} must be True or False")))?;
        Ok(Self {
            kind,
            name: leak(name.to_owned()),
            python: class.clone().unbind(),
            summary: if summary.is_empty() { format!("the class {qualified}") } else { summary },
            qualified,
            methods,
            flag,
        })
    }

    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn summary(&self) -> String {
        self.summary.clone()
    }

    pub(super) fn source(&self) -> String {
        format!("Python class {}", self.qualified)
    }

    pub(super) const fn is_coupled(&self) -> bool {
        self.flag
    }

    pub(super) const fn duplicates(&self) -> bool {
        self.flag
    }

    pub(super) fn has(&self, handler: Handler) -> bool {
        self.methods.iter().any(|(known, _)| *known == handler)
    }

    /// A new instance, unless the class fails, which ends the run.
    pub(super) fn create(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let created = self.python.call0(py);
        created.map_err(|error| self.fails(py, error, "__init__", None)).ok()
    }

    /// Calls a method, which the class has. An exception ends the run.
    pub(super) fn call<'py>(
        &self,
        instance: &Bound<'py, PyAny>,
        (handler, now): (Handler, Option<Time>),
        arguments: impl FnOnce() -> PyResult<Bound<'py, PyTuple>>,
    ) -> Option<Bound<'py, PyAny>> {
        let py = instance.py();
        let (_, name) = self.methods.iter().find(|(known, _)| *known == handler)?;
        let returned = arguments().and_then(|arguments| instance.call_method1(name.bind(py), arguments));
        returned.map_err(|error| self.fails(py, error, name.bind(py).to_str().unwrap_or("?"), now)).ok()
    }

    /// Ends the run for an exception in a method.
    fn fails(&self, py: Python<'_>, error: PyErr, method: &str, now: Option<Time>) {
        let raised =
            error.get_type(py).qualname().map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
        let message = error.value(py).str().map(|text| text.to_string()).unwrap_or_default();
        let message = if message.is_empty() { message } else { format!(": {message}") };
        let sentence = format!("{} raised {raised} in {method}{}{message}", self.title(), at(now));
        fault::set(sentence, Some(error));
    }

    /// Ends the run for a value that a method returned.
    pub(super) fn returns_wrong(&self, (value, method): (&str, &str), now: Time, remedy: &str) {
        let sentence = format!("{} returned {value} from {method}{}; {remedy}", self.title(), at(Some(now)));
        fault::set(sentence, None);
    }

    fn title(&self) -> String {
        format!("{} \"{}\"", self.kind, self.name)
    }
}

/// Names and descriptions of entries stay until the process ends.
pub(super) fn leak(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

fn at(now: Option<Time>) -> String {
    now.map_or_else(String::new, |now| format!(" at {:.6} s", now.as_secs_f64()))
}

fn mistake(sentence: String) -> PyErr {
    input_error_at(sentence, None, None)
}
