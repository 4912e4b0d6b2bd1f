const encoder = new TextEncoder();

/**
 * Computes `webhook-signature`: one `v1,<base64>` per secret, so that a receiver accepts it during a rotation. A secret
 * is `whsec_` and the key in base64. Source: the Standard Webhooks specification.
 */
export async function signatures(secrets: readonly string[], signed: string): Promise<string> {
  const each = secrets.map(async (secret) => {
    const bytes = Uint8Array.from(atob(secret.replace(/^whsec_/, "")), (char) => char.charCodeAt(0));
    const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
    const signature = await crypto.subtle.sign("HMAC", key, encoder.encode(signed));
    return `v1,${btoa(String.fromCharCode(...new Uint8Array(signature)))}`;
  });
  return (await Promise.all(each)).join(" ");
}
