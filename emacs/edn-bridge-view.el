;;; edn-bridge-view.el --- Modes of buffers that show something  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Every buffer of the package that is neither a chat nor edited is a view:
;; the tree of sessions, the jobs, the rules, the wire log and the others.
;; `edn-bridge-define-view-mode' makes their modes, so that the same keys do
;; the same in all of them, the first line names the keys, and Evil leaves
;; them to the mode.  A view without keys of its own uses
;; `edn-bridge-page-mode'.
;;
;; Knows nothing of sessions.

;;; Code:

(require 'button)
(require 'cl-lib)

;;;; Keys of every view

(defvar edn-bridge-view-map
  (let ((map (make-sparse-keymap)))
    (define-key map "q" #'quit-window)
    (define-key map "g" #'revert-buffer)
    (define-key map "?" #'describe-mode)
    (define-key map "n" #'next-line)
    (define-key map "p" #'previous-line)
    (define-key map (kbd "TAB") #'forward-button)
    (define-key map (kbd "<backtab>") #'backward-button)
    (define-key map (kbd "RET") #'push-button)
    map)
  "Keys that every view has, unless its mode uses them for more.")

;;;; The line of key hints

(defconst edn-bridge-view--common-hints
  '(("g" . "refresh") ("q" . "quit") ("?" . "keys"))
  "Keys of every view that its first line names, each with what it does.")

(defun edn-bridge-view--hint (pair)
  "Return PAIR, a key and what it does, as text for the first line."
  (concat (propertize (car pair) 'face 'edn-bridge-key) " " (cdr pair)))

(defun edn-bridge-view-hint-line (hints width)
  "Return HINTS, conses of a key and what it does, in a line of WIDTH columns.
The keys of every view come last, unless HINTS have them.  Where not all
hints fit, the last of HINTS are left out."
  (let* ((common (mapconcat #'edn-bridge-view--hint
                            (seq-remove (lambda (pair)
                                          (assoc (car pair) hints))
                                        edn-bridge-view--common-hints)
                            "  "))
         (left (- width (string-width common) 2))
         (line ""))
    (cl-dolist (pair hints)
      (let ((next (concat " " (edn-bridge-view--hint pair) " ")))
        (when (> (+ (string-width line) (string-width next)) left)
          (cl-return))
        (setq line (concat line next))))
    (truncate-string-to-width
     (replace-regexp-in-string "%" "%%" (concat line " " common)) width)))

(defun edn-bridge-view--header-line ()
  "Return the line of key hints of this buffer, for its window."
  (edn-bridge-view-hint-line (get major-mode 'edn-bridge-view-hints)
                             (window-width)))

;;;; Evil

(declare-function evil-initial-state "ext:evil-core")
(declare-function evil-set-initial-state "ext:evil-core")
(declare-function evil-make-overriding-map "ext:evil-core")
(declare-function evil-define-key* "ext:evil-core")
(defvar evil-motion-state-map)

(defconst edn-bridge-view--evil-keys '("h" "j" "k" "l" " " "/" ":")
  "Keys that stay Evil's in a view whose mode does not use them itself.
They move and search, and a leader key is often the blank.")

(defun edn-bridge-view--own-p (key map)
  "Return non-nil if MAP, and not one of its parents, has KEY."
  (let ((own (copy-keymap map)))
    (set-keymap-parent own nil)
    (not (memq (lookup-key own key) '(nil 1)))))

(defun edn-bridge-view--set-up-evil (mode map)
  "Where Evil is loaded, have MODE begin in its motion state, under MAP.
MAP has precedence over Evil's keys, except for those that move.  Where the
user has chosen a state for MODE, nothing is done."
  (when (and (fboundp 'evil-make-overriding-map)
             (not (get mode 'edn-bridge-view-evil)))
    (put mode 'edn-bridge-view-evil t)
    (unless (evil-initial-state mode)
      (evil-set-initial-state mode 'motion)
      (evil-make-overriding-map map)
      (dolist (key edn-bridge-view--evil-keys)
        (let ((command (lookup-key evil-motion-state-map key)))
          (when (and command
                     (not (numberp command))
                     (not (edn-bridge-view--own-p key map)))
            ;; The other states would find the mode's parents first.
            (dolist (state '(motion normal visual))
              (evil-define-key* state map key command))))))))

;;;; Tables

(defun edn-bridge-view-leave-heading ()
  "Where point is in the heading of the columns, go to the first row.
Do so in every window that shows this buffer."
  (let ((first (save-excursion
                 (goto-char (point-min))
                 (forward-line)
                 (point))))
    (when (< (point) first)
      (goto-char first))
    (dolist (window (get-buffer-window-list nil nil t))
      (when (< (window-point window) first)
        (set-window-point window first)))))

;;;; Making modes

(defun edn-bridge-view--not-again (&rest _)
  "Say that this buffer cannot be made again."
  (user-error "This buffer shows what was asked for once; ask again"))

(defun edn-bridge-view--set-up (mode map)
  "Set up the current buffer, whose MODE has the keymap MAP, as a view."
  (setq-local header-line-format '(:eval (edn-bridge-view--header-line))
              ;; A view stands next to the chat, however narrow that is.
              truncate-partial-width-windows nil
              ;; Where lines are not truncated.
              word-wrap t
              revert-buffer-function #'edn-bridge-view--not-again)
  (edn-bridge-view--set-up-evil mode map))

(defun edn-bridge-view--set-up-keys (mode map keys)
  "Give MAP, the keymap of MODE, KEYS: lists of a key, a command and a hint.
A row without a hint is not named in the first line."
  (pcase-dolist (`(,key ,command . ,_) keys)
    (define-key map (kbd key) command))
  (put mode 'edn-bridge-view-keys keys)
  (put mode 'edn-bridge-view-hints
       (cl-loop for (key _command hint) in keys
                when hint collect (cons key hint))))

(defmacro edn-bridge-define-view-mode (mode parent name docstring &rest body)
  "Define MODE, derived from PARENT and called NAME, as the mode of a view.
PARENT is `special-mode' or a mode derived from it; DOCSTRING is the mode's.
BODY begins with `:keys' and a list of the mode's own keys: each has a key
as `kbd' takes it, a command, and in a word or two what it does, for the
first line; a key without that is not named there.  The other forms of
BODY are evaluated when the mode is turned on.

The keymap MODE-map has `edn-bridge-view-map' and the keymap of PARENT as
its parents."
  (declare (indent defun) (doc-string 4) (debug (&define name symbolp sexp sexp
                                                     def-body)))
  (let ((map (intern (format "%s-map" mode)))
        (keys (and (eq (car body) :keys)
                   (prog1 (cadr body)
                     (setq body (cddr body)))))
        (group (and (eq (car body) :group)
                    (prog1 (cadr body)
                      (setq body (cddr body)))))
        (table (and (eq (car body) :syntax-table)
                    (prog1 (list :syntax-table (cadr body))
                      (setq body (cddr body))))))
    `(progn
       (defvar ,map
         (let ((map (make-sparse-keymap)))
           (set-keymap-parent
            map (make-composed-keymap
                 edn-bridge-view-map
                 ,(intern (format "%s-map" parent))))
           (edn-bridge-view--set-up-keys ',mode map ',keys)
           map)
         ,(format "Keymap of `%s'." mode))
       (put ',mode 'edn-bridge-view t)
       (define-derived-mode ,mode ,parent ,name
         ,(concat docstring "\n\n\\{" (symbol-name map) "}")
         :group ,(or group ''edn-bridge)
         :interactive nil
         ,@table
         (edn-bridge-view--set-up ',mode ,map)
         ,@body))))

(edn-bridge-define-view-mode edn-bridge-page-mode special-mode "Page"
  "Major mode of a text that is only read.")

(provide 'edn-bridge-view)

;;; edn-bridge-view.el ends here
