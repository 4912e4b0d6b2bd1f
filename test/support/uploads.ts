/** Builds a multipart body with this text as the file of `field`. */
export function yamlUpload(text: string, field = "pricing"): FormData {
  const form = new FormData();
  form.append(field, new Blob([text], { type: "application/yaml" }), "pricing.yml");
  return form;
}
