-- Every statement passes the organization of a movement. A trigger that fills it in costs each consumption a share of its time.
DROP TRIGGER usage_ledger_organization ON usage_ledger;
