import { useCallback, useEffect, useState } from "react";

/*
 * A team page: how many seats are taken, and who has one. Copy it with style.css, and point it at your back end, which answers the
 * team of who is signed in.
 */

const numbers = new Intl.NumberFormat("en");

/** Shows the team that `address` answers, and changes it there. */
export function Team({ address }) {
  const [team, setTeam] = useState();
  const [error, setError] = useState();
  const ask = useCallback(
    async (method, member) => {
      try {
        const answer = await fetch(address, { method, ...(member && { body: JSON.stringify(member) }) });
        const body = await answer.json().catch(() => ({}));
        if (!answer.ok) throw new Error(body.error ?? `The team could not be loaded (${answer.status}).`);
        setTeam(body);
        setError(undefined);
        return true;
      } catch (failure) {
        setError(failure.message);
        return false;
      }
    },
    [address],
  );
  useEffect(() => void ask("GET"), [ask]);
  return (
    <section className="team" aria-label="Team" aria-busy={team === undefined && error === undefined}>
      {error !== undefined && <p role="alert">{error}</p>}
      {team !== undefined && (
        <>
          {team.seats && <Seats {...team.seats} />}
          <ul className="members">
            {team.members.map((member) => (
              <Member key={member.id} member={member} onRemove={() => ask("DELETE", { id: member.id })} />
            ))}
          </ul>
          {team.total > team.members.length && (
            <p>{numbers.format(team.total - team.members.length)} more are not shown.</p>
          )}
          <AddMember onAdd={(member) => ask("POST", member)} />
        </>
      )}
    </section>
  );
}

function Seats({ taken, of }) {
  return (
    <div className="seats">
      <p>
        <strong>
          {numbers.format(taken)} of {numbers.format(of)}
        </strong>{" "}
        seats
      </p>
      <meter aria-label="Seats taken" min={0} max={Math.max(of, taken)} value={taken} />
    </div>
  );
}

function Member({ member, onRemove }) {
  const { id, name, used } = member;
  // A limit id is the service and the limit; the limit is what people know.
  const amounts = Object.entries(used).map(
    ([limit, amount]) => `${numbers.format(amount)} ${limit.slice(limit.indexOf("-") + 1)}`,
  );
  return (
    <li>
      <div>
        <b>{name ?? id}</b>
        <small>{amounts.length === 0 ? "Nothing used yet" : `${amounts.join(", ")} used`}</small>
      </div>
      <button type="button" aria-label={`Remove ${name ?? id}`} onClick={onRemove}>
        Remove
      </button>
    </li>
  );
}

function AddMember({ onAdd }) {
  const add = async (event) => {
    event.preventDefault();
    const form = event.currentTarget;
    const fields = new FormData(form);
    if (await onAdd({ id: fields.get("id"), name: fields.get("name") || null })) form.reset();
  };
  return (
    <form onSubmit={(event) => void add(event)}>
      <label>
        Id
        <input name="id" required maxLength={128} autoComplete="off" />
      </label>
      <label>
        Name
        <input name="name" maxLength={255} autoComplete="off" />
      </label>
      <button type="submit">Add member</button>
    </form>
  );
}
