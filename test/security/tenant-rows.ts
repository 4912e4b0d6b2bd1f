/*
 * The tenant matrix. Columns: what is one's own; what is the foreign tenant's, asked for in one's own place (and, on top-level
 * paths, with a query that names the foreign organization); what is the foreign tenant's, in its organization's path; what is
 * nobody's. `-` where there is no such thing.
 *
 * A letter a caller: nobody, a key with one wrong character, a key that was deleted, the platform ADMIN, a USER from outside,
 * OWNER, organization ADMIN, MANAGER, EVALUATOR, keys ALL, MANAGEMENT, EVALUATION.
 * s success, b 400, k 401, f 403, n 404, c 409, u 422.
 */
const TABLE = `
GET /.well-known/jwks.json                                                               ssssssssssss ssssssssssss - ssssssssssss
GET /analytics/api-calls                                                                 kkksssssssss kkksssssssss - kkksssssssss
GET /analytics/evaluations                                                               kkksssssssss kkksssssssss - kkksssssssss
GET /audit-log                                                                           kkksfffffsff kkksfffffsff - kkksfffffsff
GET /cache/get                                                                           kkksffffffff kkksffffffff - kkksffffffff
POST /cache/set                                                                          kkksffffffff kkksffffffff - kkksffffffff
DELETE /contracts                                                                        kkksfffffsff kkksfffffsff - kkksfffffsff
GET /contracts                                                                           kkksfffffssf kkksfffffssf - kkksfffffssf
POST /contracts                                                                          kkksfffffssf kkkffffffbbf - kkkffffffbbf
PUT /contracts                                                                           kkksfffffssf kkksfffffnnf - kkknfffffnnf
PUT /contracts/billingPeriod                                                             kkksfffffssf kkksfffffnnf - kkknfffffnnf
DELETE /contracts/{userId}                                                               kkksfffffsff kkksfffffnff - kkknfffffnff
GET /contracts/{userId}                                                                  kkksfffffssf kkksfffffnnf - kkknfffffnnf
PUT /contracts/{userId}                                                                  kkksfffffssf kkksfffffnnf - kkknfffffnnf
PUT /contracts/{userId}/billingPeriod                                                    kkksfffffssf kkksfffffnnf - kkknfffffnnf
DELETE /contracts/{userId}/billing                                                       kkknfffffnff kkknfffffnff - kkknfffffnff
PUT /contracts/{userId}/usageLevels                                                      kkksfffffssf kkksfffffnnf - kkknfffffnnf
PUT /contracts/{userId}/userContact                                                      kkksfffffssf kkksfffffnnf - kkknfffffnnf
GET /contracts/{userId}/overrides                                                        kkksfffffssf kkksfffffnnf - kkknfffffnnf
GET /contracts/{userId}/overrides/{serviceName}/{kind}/{name}                            kkksfffffssf kkksfffffnnf - kkknfffffnnf
PUT /contracts/{userId}/overrides/{serviceName}/{kind}/{name}                            kkksfffffssf kkksfffffnnf - kkknfffffnnf
DELETE /contracts/{userId}/overrides/{serviceName}/{kind}/{name}                         kkksfffffsff kkksfffffnff - kkknfffffnff
DELETE /contracts/{userId}/scheduled/{scheduledId}                                       kkksfffffssf kkksfffffnnf - kkknfffffnnf
GET /contracts/{userId}/scheduled                                                        kkksfffffssf kkksfffffnnf - kkknfffffnnf
POST /contracts/{userId}/scheduled                                                       kkkcfffffccf kkkcfffffnnf - kkknfffffnnf
GET /contracts/{userId}/holds                                                            kkksfffffssf kkksfffffnnf - kkknfffffnnf
GET /contracts/{userId}/blocks                                                           kkksfffffssf kkksfffffnnf - kkknfffffnnf
POST /contracts/{userId}/blocks                                                          kkksfffffssf kkksfffffnnf - kkknfffffnnf
DELETE /contracts/{userId}/blocks/{blockId}                                              kkksfffffssf kkksfffffnnf - kkknfffffnnf
GET /contracts/{userId}/balances                                                         kkksfffffssf kkksfffffnnf - kkknfffffnnf
POST /holds/{holdId}                                                                     kkkffffffsss kkkffffffnnn - kkkffffffnnn
DELETE /holds/{holdId}                                                                   kkkffffffsss kkkffffffnnn - kkkffffffnnn
POST /features/{userId}/{featureId}/leases                                               kkkffffffsss kkkffffffnnn - kkkffffffnnn
POST /leases/{leaseId}                                                                   kkkffffffsss kkkffffffnnn - kkkffffffnnn
DELETE /leases/{leaseId}                                                                 kkkffffffsss kkkffffffnnn - kkkffffffnnn
GET /scheduled                                                                           kkksfffffssf kkksfffffssf - kkksfffffssf
GET /overrides                                                                           kkksfffffssf kkksfffffssf - kkksfffffssf
GET /docs                                                                                nkknnnnnnnnn nkknnnnnnnnn - nkknnnnnnnnn
GET /events/client                                                                       skksssssssss skksssssssss - skksssssssss
GET /events/status                                                                       skksssssssss skksssssssss - skksssssssss
GET /events/stream                                                                       skksssssssss skksfffffsss - skknnnnnnsss
POST /events/test-event                                                                  nkksnnnnnsnn nkksnnnnnsnn - nkknnnnnnsnn
GET /features                                                                            kkkffffffsss kkkffffffsss - kkkffffffsss
POST /features/{userId}                                                                  kkkffffffsss kkkffffffnnn - kkkffffffnnn
POST /features/{userId}/pricing-token                                                    kkkffffffsss kkkffffffnnn - kkkffffffnnn
POST /features/{userId}/{featureId}                                                      kkkffffffsss kkkffffffnnn - kkkffffffnnn
GET /healthcheck                                                                         skksssssssss skksssssssss - skksssssssss
POST /features/{userId}/{featureId}/unlock                                               kkkffffffsss kkkffffffnnn - kkkffffffnnn
POST /ofrep/v1/evaluate/flags                                                            kkkffffffsss kkkffffffbbb - kkkffffffbbb
POST /ofrep/v1/evaluate/flags/{key}                                                      kkkffffffsss kkkffffffbbb - kkkffffffbbb
GET /openapi.json                                                                        skksssssssss skksssssssss - skksssssssss
GET /organization                                                                        kkkffffffsss kkkffffffsss - kkkffffffsss
GET /organizations                                                                       kkkssssssfff kkkssssssfff - kkkssssssfff
POST /organizations                                                                      kkkssssssfff kkkssssssfff - kkkssssssfff
DELETE /organizations/{organizationId}                                                   kkksfsffffff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}                                                      kkksfssssfff - kkksffffffff kkknnnnnnfff
PUT /organizations/{organizationId}                                                      kkksfsssffff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/api-keys                                             kkksfsssffff - kkksffffffff kkknnnnnnfff
POST /organizations/{organizationId}/api-keys                                            kkksfsssffff - kkksffffffff kkknnnnnnfff
DELETE /organizations/{organizationId}/api-keys/{apiKeyId}                               kkksfsssffff kkkbfbbbffff kkksffffffff kkkbfbbbffff
PUT /organizations/{organizationId}/api-keys/{apiKeyId}                                  kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/audit-log                                            kkksfssfffff - kkksffffffff kkknnnnnnfff
DELETE /organizations/{organizationId}/contracts                                         kkksfssfffff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/contracts                                            kkksfssssfff - kkksffffffff kkknnnnnnfff
POST /organizations/{organizationId}/contracts                                           kkksfsssffff - kkksffffffff kkknnnnnnfff
PUT /organizations/{organizationId}/contracts                                            kkksfsssffff - kkksffffffff kkknnnnnnfff
DELETE /organizations/{organizationId}/contracts/{userId}                                kkksfssfffff kkknfnnfffff kkksffffffff kkknfnnfffff
GET /organizations/{organizationId}/contracts/{userId}                                   kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
PUT /organizations/{organizationId}/contracts/{userId}                                   kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/contracts/{userId}/overrides                         kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
GET /organizations/{organizationId}/contracts/{userId}/overrides/{serviceName}/{kind}/{name} kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
PUT /organizations/{organizationId}/contracts/{userId}/overrides/{serviceName}/{kind}/{name} kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
DELETE /organizations/{organizationId}/contracts/{userId}/overrides/{serviceName}/{kind}/{name} kkksfssfffff kkknfnnfffff kkksffffffff kkknfnnfffff
DELETE /organizations/{organizationId}/contracts/{userId}/scheduled/{scheduledId}        kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/contracts/{userId}/scheduled                         kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
GET /organizations/{organizationId}/contracts/{userId}/holds                             kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
POST /organizations/{organizationId}/contracts/{userId}/scheduled                        kkkcfcccffff kkknfnnnffff kkkcffffffff kkknfnnnffff
GET /organizations/{organizationId}/contracts/{userId}/blocks                            kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
POST /organizations/{organizationId}/contracts/{userId}/blocks                           kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
DELETE /organizations/{organizationId}/contracts/{userId}/blocks/{blockId}               kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/contracts/{userId}/balances                          kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
DELETE /organizations/{organizationId}/contracts/{userId}/billing                        kkknfnnfffff kkknfnnfffff kkknffffffff kkknfnnfffff
GET /organizations/{organizationId}/blocks                                               kkksfssssfff - kkksffffffff kkknnnnnnfff
PUT /organizations/{organizationId}/billing/{provider}                                   kkksnssfffff - kkksnnnnnfff kkknnnnnnfff
DELETE /organizations/{organizationId}/billing/{provider}                                kkksnssfffff - kkksnnnnnfff kkknnnnnnfff
GET /organizations/{organizationId}/billing/{provider}                                   kkksnsssffff - kkksnnnnnfff kkknnnnnnfff
GET /organizations/{organizationId}/billing/{provider}/messages                          kkksnsssffff - kkksnnnnnfff kkknnnnnnfff
POST /organizations/{organizationId}/billing/{provider}/messages/{messageId}/replay      kkksnsssffff kkknnnnnffff kkksnnnnnfff kkknnnnnffff
POST /organizations/{organizationId}/billing/{provider}/replay                           kkksnsssffff - kkksnnnnnfff kkknnnnnnfff
GET /organizations/{organizationId}/scheduled                                            kkksfssssfff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/overrides                                            kkksfssssfff - kkksffffffff kkknnnnnnfff
GET /invitations/{linkToken}                                                             skksssssssss nkknnnnnnnnn - nkknnnnnnnnn
POST /invitations/{linkToken}/accept                                                     ukkssccccfff nkknnnnnnfff - nkknnnnnnfff
GET /organizations/{organizationId}/invitations                                          kkksfsssffff - kkksffffffff kkknnnnnnfff
POST /organizations/{organizationId}/invitations                                         kkksfsssffff - kkksffffffff kkknnnnnnfff
DELETE /organizations/{organizationId}/invitations/{invitationId}                        kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
POST /organizations/{organizationId}/members                                             kkksfsssffff - kkksffffffff kkknnnnnnfff
DELETE /organizations/{organizationId}/members/{username}                                kkksfsssffff kkkbfbbbffff kkkbffffffff kkkbfbbbffff
PUT /organizations/{organizationId}/members/{username}                                   kkksfsssffff kkkbfbbbffff kkkbffffffff kkkbfbbbffff
DELETE /organizations/{organizationId}/services                                          kkksfssfffff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/services                                             kkksfssssfff - kkksffffffff kkknnnnnnfff
POST /organizations/{organizationId}/services                                            kkksfsssffff - kkksffffffff kkknnnnnnfff
POST /organizations/{organizationId}/services/lint                                       kkksfsssffff - kkksffffffff kkknnnnnnfff
DELETE /organizations/{organizationId}/services/{serviceName}                            kkksfssfffff kkknfnnfffff kkksffffffff kkknfnnfffff
GET /organizations/{organizationId}/services/{serviceName}                               kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
PUT /organizations/{organizationId}/services/{serviceName}                               kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/usage-alerts                                         kkksfssssfff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/local-evaluation                                     kkksfssssfff - kkksffffffff kkknnnnnnfff
PUT /organizations/{organizationId}/usage-alerts                                         kkksfsssffff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/gate                                                 kkksfssssfff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/overview                                             kkksfssssfff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/trends                                               kkksfssssfff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/denials                                              kkksfssssfff - kkksffffffff kkknnnnnnfff
PUT /organizations/{organizationId}/gate                                                 kkksfssfffff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/services/{serviceName}/decisions                     kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
POST /organizations/{organizationId}/services/{serviceName}/novations                    kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/services/{serviceName}/diff                          kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
POST /organizations/{organizationId}/services/{serviceName}/diff                         kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
POST /organizations/{organizationId}/services/{serviceName}/impact                       kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/services/{serviceName}/pricings                      kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
POST /organizations/{organizationId}/services/{serviceName}/pricings                     kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
DELETE /organizations/{organizationId}/services/{serviceName}/pricings/{pricingVersion}  kkksfssfffff kkknfnnfffff kkksffffffff kkknfnnfffff
GET /organizations/{organizationId}/services/{serviceName}/pricings/{pricingVersion}     kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
PUT /organizations/{organizationId}/services/{serviceName}/pricings/{pricingVersion}     kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/services/{serviceName}/pricings/{pricingVersion}/public-url kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
GET /organizations/{organizationId}/services/{serviceName}/versions kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
GET /organizations/{organizationId}/services/{serviceName}/pricings/{pricingVersion}/source kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
GET /organizations/{organizationId}/services/{serviceName}/pricings/{pricingVersion}/expectations kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
PUT /organizations/{organizationId}/services/{serviceName}/pricings/{pricingVersion}/expectations kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/webhooks                                             kkksfssssfff - kkksffffffff kkknnnnnnfff
POST /organizations/{organizationId}/webhooks                                            kkksfsssffff - kkksffffffff kkknnnnnnfff
DELETE /organizations/{organizationId}/webhooks/{webhookId}                              kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/webhooks/{webhookId}                                 kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
PUT /organizations/{organizationId}/webhooks/{webhookId}                                 kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/webhooks/{webhookId}/deliveries                      kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
POST /organizations/{organizationId}/webhooks/{webhookId}/deliveries/{deliveryId}/resend kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
POST /organizations/{organizationId}/webhooks/{webhookId}/secret                         kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/public-offer                                         kkksfssssfff - kkksffffffff kkknnnnnnfff
PUT /organizations/{organizationId}/public-offer                                         kkksfssfffff - kkksffffffff kkknnnnnnfff
DELETE /organizations/{organizationId}/services/{serviceName}/scheduled/{scheduledId}    kkksfsssffff kkknfnnnffff kkksffffffff kkknfnnnffff
GET /organizations/{organizationId}/services/{serviceName}/scheduled                     kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
GET /organizations/{organizationId}/services/{serviceName}/offer                         kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
GET /public-offers/{organizationId}/{serviceName}                                        skksssssssss nkknnnnnnnnn nkknnnnnnnnn nkknnnnnnnnn
POST /snapshot                                                                           kkkffffffsss kkkffffffsss - kkkffffffsss
POST /pricing-tokens/verify                                                              kkksssssssss kkksssssssss - kkksssssssss
DELETE /services                                                                         kkksfffffsff kkksfffffsff - kkksfffffsff
GET /services                                                                            kkksfffffsss kkksfffffsss - kkksfffffsss
POST /services                                                                           kkkffffffssf kkkffffffssf - kkkffffffssf
POST /services/lint                                                                      kkkffffffssf kkkffffffssf - kkkffffffssf
DELETE /services/{serviceName}                                                           kkkffffffsff kkksfffffnff - kkknfffffnff
GET /services/{serviceName}                                                              kkkffffffsss kkkffffffnnn - kkkffffffnnn
PUT /services/{serviceName}                                                              kkkffffffssf kkkffffffnnf - kkkffffffnnf
GET /services/{serviceName}/decisions                                                    kkkffffffssf kkkffffffnnf - kkkffffffnnf
POST /services/{serviceName}/novations                                                   kkkffffffssf kkkffffffnnf - kkkffffffnnf
GET /services/{serviceName}/diff                                                         kkkffffffsss kkkffffffnnn - kkkffffffnnn
POST /services/{serviceName}/diff                                                        kkkffffffssf kkkffffffnnf - kkkffffffnnf
POST /services/{serviceName}/impact                                                      kkkffffffssf kkkffffffnnf - kkkffffffnnf
DELETE /services/{serviceName}/scheduled/{scheduledId}                                       kkkffffffssf kkkffffffnnf - kkkffffffnnf
GET /services/{serviceName}/scheduled                                                    kkkffffffssf kkkffffffnnf - kkkffffffnnf
GET /services/{serviceName}/offer                                                        kkkffffffsss kkkffffffnnn - kkkffffffnnn
GET /services/{serviceName}/pricings                                                     kkkffffffsss kkkffffffnnn - kkkffffffnnn
POST /services/{serviceName}/pricings                                                    kkkffffffssf kkkffffffnnf - kkkffffffnnf
DELETE /services/{serviceName}/pricings/{pricingVersion}                                 kkkffffffsff kkksfffffnff - kkknfffffnff
GET /services/{serviceName}/pricings/{pricingVersion}                                    kkkffffffsss kkkffffffnnn - kkkffffffnnn
PUT /services/{serviceName}/pricings/{pricingVersion}                                    kkkffffffssf kkkffffffnnf - kkkffffffnnf
GET /services/{serviceName}/pricings/{pricingVersion}/public-url                         kkkffffffsss kkkffffffnnn - kkkffffffnnn
GET /services/{serviceName}/versions                                                     kkkffffffsss kkkffffffnnn - kkkffffffnnn
GET /services/{serviceName}/pricings/{pricingVersion}/source                             kkkffffffsss kkkffffffnnn - kkkffffffnnn
GET /services/{serviceName}/pricings/{pricingVersion}/expectations                       kkkffffffsss kkkffffffnnn - kkkffffffnnn
PUT /services/{serviceName}/pricings/{pricingVersion}/expectations                       kkkffffffssf kkkffffffnnf - kkkffffffnnf
GET /usage                                                                               kkkbfffffssf kkksfffffssf - kkknfffffssf
GET /contracts/{userId}/usage                                                            kkksfffffssf kkksfffffnnf - kkknfffffnnf
GET /organizations/{organizationId}/usage                                                kkksfssssfff - kkksffffffff kkknnnnnnfff
GET /organizations/{organizationId}/contracts/{userId}/usage                             kkksfssssfff kkknfnnnnfff kkksffffffff kkknfnnnnfff
POST /usage                                                                              kkkffffffsss kkkffffffsss - kkkffffffsss
GET /users                                                                               kkkssssssfff kkkssssssfff - kkkssssssfff
POST /users                                                                              ukkuuuuuuuuu ukkuuuuuuuuu - ukkuuuuuuuuu
POST /users/authenticate                                                                 ukkuuuuuuuuu ukkuuuuuuuuu - ukkuuuuuuuuu
GET /users/me                                                                            kkkssssssfff kkkssssssfff - kkkssssssfff
DELETE /users/{username}                                                                 kkksffffffff kkksffffffff - kkknnnnnnfff
GET /users/{username}                                                                    kkkssssssfff kkkssssssfff - kkknnnnnnfff
PUT /users/{username}                                                                    kkksffffffff kkksffffffff - kkknnnnnnfff
GET /users/{username}/api-key                                                            kkksffffffff kkksffffffff - kkknffffffff
PUT /users/{username}/api-key                                                            kkksffffffff kkksffffffff - kkknffffffff
PUT /users/{username}/role                                                               kkksffffffff kkksffffffff - kkknffffffff
GET /webhooks                                                                            kkkbfffffssf kkksfffffssf - kkknfffffssf
POST /webhooks                                                                           kkkbfffffssf kkksfffffssf - kkknfffffssf
DELETE /webhooks/{webhookId}                                                             kkkbfffffssf kkksfffffnnf - kkknfffffnnf
GET /webhooks/{webhookId}                                                                kkkbfffffssf kkksfffffnnf - kkknfffffnnf
PUT /webhooks/{webhookId}                                                                kkkbfffffssf kkksfffffnnf - kkknfffffnnf
GET /webhooks/{webhookId}/deliveries                                                     kkkbfffffssf kkksfffffnnf - kkknfffffnnf
POST /webhooks/{webhookId}/deliveries/{deliveryId}/resend                                kkkbfffffssf kkksfffffnnf - kkknfffffnnf
POST /webhooks/{webhookId}/secret                                                        kkkbfffffssf kkksfffffnnf - kkknfffffnnf
POST /billing/{connectionId}                                                             bkkbbbbbbbbb bkkbbbbbbbbb - nkknnnnnnnnn
`;

/** Expected results of an operation, by method and path. */
export const ROWS: ReadonlyMap<string, string> = new Map(
  TABLE.trim()
    .split("\n")
    .map((line) => {
      const [method, path, ...words] = line.split(/ +/);
      return [`${method} ${path}`, words.join(" ")];
    }),
);
