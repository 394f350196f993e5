"""Checks of figures against the published values and statements of their study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.sweep import matches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.study.claims import Claim
    from anabranch.study.document import Table
    from anabranch.study.figures import Figure
    from anabranch.study.keys import FigureKeys
    from anabranch.study.published import Published
    from anabranch.study.scope import Scope


def check_figures(
    tables: Sequence[Table[FigureKeys]], figures: Sequence[Figure], scopes: Mapping[str, Scope],
    shown: tuple[Published | None, Sequence[Claim]],
) -> None:  # fmt: skip
    """Check the keys `published`, `claims` and `log_y` of all figures.

    Raises:
        InputError: If a figure asks for marks of published values or statements that there are none of, or would show
            one of them at 0 on a logarithmic axis.

    """
    published, claims = shown
    for table, figure in zip(tables, figures, strict=True):
        if table.has("published") and figure.options["published"]:
            _check_published(table, figure, published)
        if figure.shows_claims:
            _check_claims(table, figure, scopes[figure.experiment], claims)
        if figure.log_y and figure.shows_published and published is not None and published.metric == figure.metric:
            least = min(float(row[published.value_column]) for row in published.rows)
            if least <= 0.0:
                raise table.error(f"a published value is {least:g}, which a logarithmic axis cannot show", "log_y")


def _check_published(table: Table[FigureKeys], figure: Figure, published: Published | None) -> None:
    if figure.together:
        raise table.error('published values are of one subject each: remove "together" or "published"', "published")
    if published is None:
        raise table.error('the study has no published values: add a table [published], or use "claims"', "published")
    if published.metric != figure.metric:
        raise table.error(f'the published values are of "{published.metric}", not "{figure.metric}"', "published")
    if figure.experiment not in published.experiment_match:
        known = ", ".join(published.experiment_match)
        raise table.error(
            f'experiment "{figure.experiment}" has no published values (experiments that have some: {known})',
            "published",
        )


def _check_claims(table: Table[FigureKeys], figure: Figure, scope: Scope, claims: Sequence[Claim]) -> None:
    if figure.together:
        raise table.error('statements are about one subject each: remove "together" or "claims"', "claims")
    found = [claim for claim in claims if figure.states(claim) and _share_a_point(figure, claim, scope)]
    if not found:
        raise table.error(
            f'no statement of kind value, at_least or at_most is about "{figure.metric}" at a point of this figure',
            "claims",
        )
    for claim in found if figure.log_y else ():
        if claim.expect <= 0.0:
            raise table.error(f'"{claim.id}" has {claim.expect:g}, which a logarithmic axis cannot show', "log_y")


def _share_a_point(figure: Figure, claim: Claim, scope: Scope) -> bool:
    """Whether a figure has a point of a claim."""
    where = claim.quantity.where
    return all(
        any(matches({name: v}, {name: figure.where[name]}) and matches({name: v}, {name: where[name]}) for v in values)
        for name, values in scope.values.items()
        if name in figure.where and name in where
    )
