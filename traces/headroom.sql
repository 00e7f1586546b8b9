with starts as (
  select trace, node, rank, submission, round, max(c.length_slots) * 64 as table_tokens, any_value(o.prefill_tokens) as prefill_tokens,
         any_value(s.request) request, any_value(s.max_new_tokens) - (any_value(o.prefill_tokens) - any_value(s.prompt_tokens)) as remaining_tokens
  from table_changes c join operations o using (trace, node, rank, submission, round) join submissions s using (trace, node, rank, submission)
  where c.fresh and o.kind = 'prefill' group by all),
numbered as (select *, row_number() over (partition by trace, node, rank, submission order by round) - 1 as retractions, table_tokens - prefill_tokens as headroom_tokens from starts)
select retractions, count(*) admissions, min(headroom_tokens) lo, max(headroom_tokens) hi, count(*) filter (headroom_tokens < remaining_tokens) as partial_reserve,
  count(*) filter (retractions > 0 and headroom_tokens > 4096 + 64) as escalated, count(*) filter (4096 * (1 + retractions) >= remaining_tokens) as exempt
from numbered group by all order by 1
