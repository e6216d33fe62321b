// Trusted Types: a page may require that addresses of scripts, workers among them, come from a policy that it allows.

/** The used part of a `TrustedTypePolicy`, which the types of a page lack. */
interface Policy {
  createScriptURL(address: string): string;
}

interface TrustedTypes {
  createPolicy(name: string, rules: Policy): Policy;
}

/** Keeps addresses as they are. */
const plain: Policy = { createScriptURL: (address) => address };

let policy: Policy | undefined;

/** The address of one of the package's own workers, by the policy `outrider` where the page allows it. */
export function trusted(address: string): string {
  policy ??= allowed() ?? plain;
  return policy.createScriptURL(address);
}

function allowed(): Policy | undefined {
  try {
    return (globalThis as { trustedTypes?: TrustedTypes }).trustedTypes?.createPolicy('outrider', plain);
  } catch {
    // The page does not allow it, and may not require it either.
    return undefined;
  }
}
