"""Whether a Kustomization names the account that its namespace requires it to name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from crds.kustomize import Kustomization
from toolkit.policy import tenancy


@dataclass(frozen=True, slots=True, kw_only=True)
class Accounts:
    """The rule, with what it rests on: labels of namespaces, and the flag's default account."""

    labels: Callable[[str], Mapping[str, str]]
    default: str

    def require(self, obj: Kustomization) -> None:
        """Let the Kustomization be applied.

        Raises:
            AccessDeniedError: it must name an account and does not.
            WaitingError: the labels of the namespace are not known yet.
        """
        tenancy.require_account(
            self.labels(obj.metadata.namespace),
            account=obj.spec.service_account_name or self.default,
            remote=obj.spec.kube_config is not None,
        )
