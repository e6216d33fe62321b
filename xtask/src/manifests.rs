//! The files for containers in docs/gateway, by the schemas of Compose and Kubernetes.

use anyhow::Result;

use crate::process;
use crate::python;
use crate::workspace::Workspace;

/// Both bring their schemas with them, at the versions that we have seen working.
const COMPOSE: &str = "check-jsonschema==0.39.0";
const KUBERNETES: &str = "kubernetes-validate==1.37.0";

/// Refuses what `docker compose` or a cluster would refuse for its form.
pub fn test(workspace: &Workspace) -> Result<()> {
    let python = python::environment(workspace, "manifests", &[COMPOSE, KUBERNETES])?;
    let file = |name: &str| workspace.root().join("docs/gateway").join(name);
    let mut compose = workspace.command(&python);
    compose.args(["-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]).arg(file("compose.yaml"));
    process::run(&mut compose)?;
    let mut kubernetes = workspace.command(&python);
    kubernetes.args(["-m", "kubernetes_validate", "--strict", "--quiet"]).arg(file("kubernetes.yaml"));
    process::run(&mut kubernetes)
}
