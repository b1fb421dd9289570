;;; edn-bridge-models.el --- Model, thinking level and mode  -*- lexical-binding: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; Commands of a chat buffer that choose by what model, how thoroughly and
;; with which permissions its session goes on.  Under the prefix C-c C-o.

;;; Code:

(require 'cl-lib)
(require 'seq)
(require 'edn-bridge-agents)
(require 'edn-bridge-chat)
(require 'edn-bridge-complete)
(require 'edn-bridge-input)
(require 'edn-bridge-view)

(defun edn-bridge-models--label (model)
  "Return what MODEL, as the bridge lists it, is called."
  (format "%s/%s" (edn-bridge-chat-word (plist-get model :provider))
          (plist-get model :id)))

(defun edn-bridge-models--annotate (model)
  "Return the annotation of MODEL: its window, its price and more, in columns.
The price is that of a million tokens of input and of output."
  (let ((window (plist-get model :context-window))
        (price (plist-get model :price)))
    (string-trim-right
     (format "%-6s %-16s %s"
             (if (integerp window)
                 (if (>= window 1000000)
                     (format "%gM" (/ window 1000000.0))
                   (format "%dk" (/ window 1000)))
               "")
             (if (and (consp price) (numberp (plist-get price :input))
                      (numberp (plist-get price :output)))
                 (format "$%g / $%g" (plist-get price :input)
                         (plist-get price :output))
               "")
             (string-join
              (delq nil
                    (list
                     (and (equal (plist-get model :id)
                                 (edn-bridge-chat-get :model-id))
                          (equal (edn-bridge-chat-word
                                  (plist-get model :provider))
                                 (edn-bridge-chat-word
                                  (edn-bridge-chat-get :model-provider)))
                          "current")
                     (and (plist-member model :usable)
                          (not (edn-bridge-edn-true-p
                                (plist-get model :usable)))
                          "not set up")
                     (plist-get model :name)))
              ", ")))))

(defun edn-bridge-models--usable-first (models)
  "Return MODELS with those first that can be used as things are."
  (cl-flet ((usable-p (model)
              (or (not (plist-member model :usable))
                  (edn-bridge-edn-true-p (plist-get model :usable)))))
    (append (seq-filter #'usable-p models) (seq-remove #'usable-p models))))

(defun edn-bridge-models-choose (provider id &optional scope)
  "Continue with the model ID of PROVIDER.
Where an external agent answers, choose among its models.
SCOPE is \"session\", \"project\" or \"user\"; with a prefix argument it is
asked for, and the choice holds for new sessions too."
  (interactive
   (if (edn-bridge-agents-here)
       (list nil nil)
     (let* ((data (edn-bridge-rpc-call (edn-bridge-chat-current)
                                       "get_available_models" nil))
            (model (edn-bridge-complete-choose
                    "Model: " 'edn-bridge-model
                    (edn-bridge-models--usable-first
                     (append (plist-get data :models) nil))
                    #'edn-bridge-models--label
                    #'edn-bridge-models--annotate)))
       (list (edn-bridge-chat-word (plist-get model :provider))
             (plist-get model :id)
             (and current-prefix-arg
                  (edn-bridge-complete-choose
                   "For: " 'edn-bridge-scope '("session" "project" "user")
                   #'identity)))))
   edn-bridge-chat-mode)
  (if (null id)
      (edn-bridge-agents-choose "model" "models" #'edn-bridge-models-choose)
    (edn-bridge-rpc-request
     (edn-bridge-chat-current) "set_model"
     (append (list :provider provider :model-id id)
             (and scope (list :scope scope)))
     :on-success (lambda (_data) (message "Model: %s" id)))))

(defun edn-bridge-models-cycle (&optional back)
  "Continue with the next model that can be used; with BACK, the previous one."
  (interactive "P" edn-bridge-chat-mode)
  (edn-bridge-rpc-request
   (edn-bridge-chat-current) "cycle_model"
   (list :direction (if back "prev" "next"))
   :on-success (lambda (data)
                 (message "Model: %s"
                          (edn-bridge-models--label (plist-get data :model))))))

(defun edn-bridge-models-think (level)
  "Have the model think as much as LEVEL says.
Where an external agent answers, choose among its levels."
  (interactive
   (list (and (not (edn-bridge-agents-here))
              (edn-bridge-complete-choose
               "Thinking: " 'edn-bridge-thinking-level
               edn-bridge-constants-thinking-levels #'identity)))
   edn-bridge-chat-mode)
  (if (null level)
      (edn-bridge-agents-choose "thought_level" "thinking levels"
                                #'edn-bridge-models-think)
    (edn-bridge-rpc-request
     (edn-bridge-chat-current) "set_thinking_level" (list :level level)
     :on-success
     (lambda (data)
       (message "Thinking: %s"
                (edn-bridge-chat-word (plist-get data :thinking-level)))))))

(defconst edn-bridge-models--mode-cycle '("ask" "accept-edits" "read-only")
  "The permission modes that a key goes through.
The one in which nothing asks must be chosen by its name.")

(defun edn-bridge-models-cycle-mode ()
  "Go to the next permission mode: ask, accept-edits, read-only.
The mode yolo, in which nothing asks, must be chosen by its name."
  (interactive nil edn-bridge-chat-mode)
  (let* ((conn (edn-bridge-chat-current))
         (old (edn-bridge-chat-word (edn-bridge-chat-get :mode)))
         (mode (or (cadr (member old edn-bridge-models--mode-cycle))
                   (car edn-bridge-models--mode-cycle))))
    (edn-bridge-models--show-mode mode)
    (edn-bridge-rpc-request
     conn "set_mode" (list :mode mode)
     :on-success (lambda (data)
                   (message "Permissions: %s (%s)" (plist-get data :mode)
                            (edn-bridge-models--annotate-mode
                             (plist-get data :mode))))
     :on-error (lambda (frame)
                 (edn-bridge-chat-with-buffer conn
                   (when (equal (edn-bridge-chat-get :mode) mode)
                     (edn-bridge-models--show-mode old)))
                 (edn-bridge-chat-refused frame)))))

(defun edn-bridge-models--show-mode (mode)
  "Have the header line say MODE, before the bridge does."
  (setq edn-bridge-chat--session
        (plist-put (copy-sequence edn-bridge-chat--session) :mode mode))
  (force-mode-line-update))

(defun edn-bridge-models-cycle-mode-or-back ()
  "In the draft, go to the next permission mode; above it, to the button before.
See `edn-bridge-models-cycle-mode'."
  (interactive nil edn-bridge-chat-mode)
  (if (edn-bridge-transcript-in-draft-p)
      (edn-bridge-models-cycle-mode)
    (edn-bridge-chat-previous-button)))

(defun edn-bridge-models--annotate-mode (mode)
  "Return what MODE allows, or nil."
  (pcase mode
    ("ask" "reading here is free, anything else asks")
    ("accept-edits" "edits in the folder are free too")
    ("read-only" "nothing is changed")
    ("yolo" "nothing asks")))

(defun edn-bridge-models-set-mode (mode)
  "Make MODE what the tools may do without asking."
  (interactive
   (list (edn-bridge-complete-choose
          "Permissions: " 'edn-bridge-mode edn-bridge-constants-modes
          #'identity #'edn-bridge-models--annotate-mode))
   edn-bridge-chat-mode)
  (edn-bridge-rpc-request
   (edn-bridge-chat-current) "set_mode" (list :mode mode)
   :on-success (lambda (data)
                 (message "Permissions: %s" (plist-get data :mode)))))

(defun edn-bridge-models-compact (instructions)
  "Have the older part of the conversation summarised for the model.
INSTRUCTIONS say what the summary should keep; they may be empty."
  (interactive (list (read-string "Keep in the summary (may be empty): "))
               edn-bridge-chat-mode)
  (edn-bridge-rpc-request
   (edn-bridge-chat-current) "compact"
   (and (not (equal instructions ""))
        (list :custom-instructions instructions))
   :on-success (lambda (_data) (message "The conversation was compacted"))))

(defun edn-bridge-models-show-stats ()
  "Show what the session has used, on a page of its own."
  (interactive nil edn-bridge-chat-mode)
  (let ((conn (edn-bridge-chat-current))
        (chat (current-buffer))
        (name (or (edn-bridge-chat-get :session-display-name)
                  (edn-bridge-chat-get :session-name)
                  "this session"))
        (page (get-buffer-create "*edn-bridge usage of a session*")))
    (with-current-buffer page
      (edn-bridge-page-mode)
      (setq-local revert-buffer-function
                  (lambda (&rest _)
                    (with-current-buffer chat
                      (edn-bridge-models-show-stats))))
      (edn-bridge-rpc-request
       conn "get_session_stats" nil
       :on-success
       (lambda (data)
         (when (buffer-live-p page)
           (with-current-buffer page
             (let ((inhibit-read-only t))
               (erase-buffer)
               (edn-bridge-models--insert-stats name (plist-get data :stats))
               (goto-char (point-min))))))))
    (pop-to-buffer page)))

(defun edn-bridge-models--insert-stats (name stats)
  "Insert a page with STATS, what the session NAME has used."
  (insert (propertize (concat "Usage of " (edn-bridge-visible-label name))
                      'face 'edn-bridge-title)
          "\n\n")
  (pcase-dolist (`(,label ,value)
                 `(("Messages" ,(edn-bridge-models--counts
                                 (plist-get stats :message-count)
                                 (plist-get stats :messages)))
                   ("Turns" ,(edn-bridge-models--turns stats))
                   ("Tool calls" ,(edn-bridge-models--counts
                                   nil (plist-get stats :tool-calls)))
                   ("Failed calls" ,(edn-bridge-models--counts
                                     nil (plist-get stats :tool-errors)))
                   ,@(edn-bridge-models--tokens (plist-get stats :tokens))
                   ("Cost" ,(edn-bridge-models--cost (plist-get stats :cost)))
                   ("Working time" ,(edn-bridge-models--time
                                     (plist-get stats :working-ms)))
                   ("Open for" ,(edn-bridge-models--time
                                 (plist-get stats :duration-ms)))
                   ("Journal" ,(and (numberp (plist-get stats :bytes))
                                    (file-size-human-readable
                                     (plist-get stats :bytes) 'si " " "B")))))
    (when value
      (insert (format "  %-14s %s\n" label value)))))

(defun edn-bridge-models--number (number)
  "Return NUMBER with commas between its thousands."
  (let ((text (number-to-string number)))
    (while (string-match "\\([0-9]\\)\\([0-9]\\{3\\}\\)\\(,\\|\\'\\)" text)
      (setq text (replace-match "\\1,\\2\\3" t nil text)))
    text))

(defun edn-bridge-models--counts (sum counts)
  "Return SUM, or the sum of COUNTS if nil, and what it consists of.
COUNTS is a property list of names and numbers.  Return nil for none."
  (let* ((pairs (cl-loop for (name number) on counts by #'cddr
                         when (and (integerp number) (> number 0))
                         collect (cons (edn-bridge-chat-word name) number)))
         (sum (or sum (apply #'+ (mapcar #'cdr pairs)))))
    (and (> sum 0)
         (concat (edn-bridge-models--number sum)
                 (and pairs
                      (format ": %s"
                              (mapconcat
                               (lambda (pair)
                                 (format "%s %s"
                                         (edn-bridge-visible-label (car pair))
                                         (edn-bridge-models--number
                                          (cdr pair))))
                               pairs ", ")))))))

(defun edn-bridge-models--turns (stats)
  "Return how many turns STATS tell of, and how many were stopped."
  (let ((turns (plist-get stats :turns))
        (stopped (plist-get stats :turns-stopped)))
    (and (integerp turns)
         (concat (edn-bridge-models--number turns)
                 (and (integerp stopped) (> stopped 0)
                      (format ", %d stopped" stopped))))))

(defun edn-bridge-models--tokens (tokens)
  "Return rows for TOKENS, a property list of kinds and numbers."
  (cl-loop for (label key) in '(("Input tokens" :input)
                                ("Output tokens" :output)
                                ("Cache, read" :cache-read)
                                ("Cache, written" :cache-write)
                                ("All tokens" :total))
           for number = (plist-get tokens key)
           when (and (integerp number) (> number 0))
           collect (list label (edn-bridge-models--number number))))

(defun edn-bridge-models--cost (cost)
  "Return COST, a number of dollars or nil, rounded."
  (and (numberp cost)
       (format (if (or (zerop cost) (>= cost 0.01)) "$%.2f" "$%.4f") cost)))

(defun edn-bridge-models--time (milliseconds)
  "Return MILLISECONDS in words, or nil for none."
  (and (numberp milliseconds)
       (> milliseconds 0)
       (let ((seconds (round milliseconds 1000)))
         (cond ((< seconds 60) (format "%d s" seconds))
               ((< seconds 3600) (format "%d min %d s" (/ seconds 60)
                                         (% seconds 60)))
               ((< seconds 86400) (format "%d h %d min" (/ seconds 3600)
                                          (/ (% seconds 3600) 60)))
               (t (format "%d days %d h" (/ seconds 86400)
                          (/ (% seconds 86400) 3600)))))))

(defun edn-bridge-models-login (provider)
  "Log in to PROVIDER, or give it an API key; interactively, choose it."
  (interactive
   (list (let* ((data (edn-bridge-rpc-call (edn-bridge-chat-current)
                                           "get_available_models" nil))
                (models (append (plist-get data :models) nil)))
           (edn-bridge-complete-choose
            "Log in to: " 'edn-bridge-provider
            (seq-difference
             (seq-uniq (mapcar (lambda (model)
                                 (edn-bridge-chat-word
                                  (plist-get model :provider)))
                               models))
             ;; This one runs in the program itself.
             '("embedded"))
            #'identity
            (lambda (provider)
              (and (seq-some
                    (lambda (model)
                      (and (equal provider
                                  (edn-bridge-chat-word
                                   (plist-get model :provider)))
                           (edn-bridge-edn-true-p
                            (plist-get model :usable))))
                    models)
                   "set up")))))
   edn-bridge-chat-mode)
  (edn-bridge-input-send-text (concat "/login " provider)))

(edn-bridge-input-handle "login" #'edn-bridge-models-login)

(defvar-local edn-bridge-models--missing nil
  "Non-nil if this chat says that there is no model.")

(defun edn-bridge-models--on-session (data)
  "Say above the draft if there is no model, by DATA of `session/updated'."
  (when (edn-bridge-chat-mine-p data)
    (let ((missing (and (plist-get data :setup) t)))
      (unless (eq missing edn-bridge-models--missing)
        (setq edn-bridge-models--missing missing)
        (edn-bridge-chat-set-status
         'edn-bridge-models
         (and missing
              (list (edn-bridge-faces-keys
                     "There is no model yet: /login takes a key or logs in, \\[edn-bridge-models-choose] chooses a model"))))))))

(edn-bridge-chat-handle "session/updated" #'edn-bridge-models--on-session)

(let ((map (make-sparse-keymap)))
  (define-key map "m" #'edn-bridge-models-choose)
  (define-key map "n" #'edn-bridge-models-cycle)
  (define-key map "t" #'edn-bridge-models-think)
  (define-key map "p" #'edn-bridge-models-set-mode)
  (define-key map "c" #'edn-bridge-models-compact)
  (define-key map "s" #'edn-bridge-models-show-stats)
  (define-key map "a" #'edn-bridge-agents-new)
  (define-key map "o" #'edn-bridge-agents-set-option)
  (define-key edn-bridge-chat-mode-map (kbd "<backtab>")
              #'edn-bridge-models-cycle-mode-or-back)
  (define-key edn-bridge-chat-mode-map (kbd "C-c C-o") (cons "model" map)))

(provide 'edn-bridge-models)

;;; edn-bridge-models.el ends here
