"""Asks Faregate with the client that OpenAPI Generator makes: see "Other languages" in src/docs/clients.md."""

import json
import os
import sys

import faregate

USER = "grace"

configuration = faregate.Configuration(host=os.environ["FAREGATE_URL"] + "/api/v1")
configuration.api_key["x-api-key"] = os.environ["FAREGATE_KEY"]
client = faregate.ApiClient(configuration)
contracts = faregate.ContractsApi(client)
features = faregate.FeaturesApi(client)
services = faregate.ServicesApi(client)
tokens = faregate.TokensApi(client)
usage = faregate.UsageApi(client)

service = services.create_service(sys.argv[1])
print("created", service.name, "beside", len(services.list_services()) - 1)

contract = contracts.create_contract(
    faregate.ContractToCreate(
        user_contact=faregate.ContractToCreateUserContact(user_id=USER, username=USER),
        contracted_services={"notes": "1.0.0"},
        subscription_plans={"notes": "PRO"},
        subscription_add_ons={},
    )
)
print("contracted", contract.user_contact.user_id, "to", contract.subscription_plans["notes"])

# A retry with the same key counts once. A flag is a text: this generator writes True as "True", which the server ignores.
for _ in range(2):
    use = {"notes-maxTasks": 150}
    answer = features.evaluate_feature(USER, "notes-board", idempotency_key="request-1", strict="true", request_body=use)
    print("granted", answer.eval, "left", int(answer.remaining["notes-maxTasks"]))
denied = features.evaluate_feature(USER, "notes-board", strict="true", request_body={"notes-maxTasks": 51})
print("granted", denied.eval, "left", int(denied.remaining["notes-maxTasks"]))

print("export", features.evaluate_features(USER)["notes-export"])

item = faregate.UsageItem(user_id=USER, feature_id="notes-board", amounts={"notes-maxTasks": 10}, key="import-1")
recorded = usage.record_usage([item])
total = usage.get_contract_usage(USER).totals[0].counted
print("recorded", int(recorded.counts.counted), "total", int(total))

token = tokens.create_pricing_token(USER).pricing_token
print("token valid", tokens.verify_token(faregate.TokenToVerify(token=token)).valid)

try:
    contracts.show_contract("nobody")
except faregate.ApiException as failure:
    print(failure.status, json.loads(failure.body)["error"])
